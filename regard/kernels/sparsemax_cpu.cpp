// Sparsemax of rows and its gradient, for sparsemax_cpu.py: no library, no allocation, one thread.
//
// The threshold τ solves f(τ) = Σ max(z - τ, 0) - 1 = 0, which is convex and falls. Newton's steps from max - 1, where f
// is not below 0, come from the left and end where the support stays the same: at most as many as it has members.
// Only numbers above max - 1 can be in the support, so they are set aside once; the steps run over these few.

typedef float vec __attribute__((vector_size(32), aligned(4)));
typedef int mask __attribute__((vector_size(32)));

static const long LANES = 8;

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec x) { *(vec *)p = x; }
static inline vec all(float x) { return vec{x, x, x, x, x, x, x, x}; }

static inline bool any(mask m) {
    typedef long long wide __attribute__((vector_size(32)));
    wide w = (wide)m;
    return (w[0] | w[1] | w[2] | w[3]) != 0;
}

static float largest(const float *z, long n) {
    float most = -__builtin_inff();
    long i = 0;
    if (n >= LANES) {
        vec best = load(z);
        for (i = LANES; i + LANES <= n; i += LANES) {
            vec x = load(z + i);
            best = best < x ? x : best;
        }
        for (int j = 0; j < LANES; j++) most = best[j] > most ? best[j] : most;
    }
    for (; i < n; i++) most = z[i] > most ? z[i] : most;
    return most;
}

// the numbers above most - 1, less `most`, to `kept`; how many
static long candidates(const float *z, float most, float *kept, long n) {
    long count = 0, i = 0;
    for (; i + LANES <= n; i += LANES)
        if (any(load(z + i) - most > all(-1.0f)))
            for (long j = i; j < i + LANES; j++)
                if (z[j] - most > -1.0f) kept[count++] = z[j] - most;
    for (; i < n; i++)
        if (z[i] - most > -1.0f) kept[count++] = z[i] - most;
    return count;
}

static float threshold(float *kept, long count) {
    double tau = -1.0;
    for (long before = count + 1; count < before;) {
        double sum = 0.0;
        for (long i = 0; i < count; i++) sum += kept[i];
        tau = (sum - 1.0) / count;
        before = count;
        long left = 0;
        for (long i = 0; i < before; i++)
            if (kept[i] > tau) kept[left++] = kept[i];
        count = left;
    }
    return (float)tau;
}

extern "C" {

// p = sparsemax(z) for rows of n numbers; zeros for a row of -inf. `kept` has room for n numbers.
void sparsemax_rows(const float *z, float *p, float *kept, long rows, long n) {
    for (long r = 0; r < rows; r++, z += n, p += n) {
        float most = largest(z, n);
        if (most == -__builtin_inff()) {
            for (long i = 0; i < n; i++) p[i] = z[i] == z[i] ? 0.0f : z[i];
            continue;
        }
        float tau = threshold(kept, candidates(z, most, kept, n));
        long i = 0;
        for (; i + LANES <= n; i += LANES) {  // written so that NaN stays NaN
            vec x = (load(z + i) - most) - tau;
            store(p + i, x <= 0.0f ? all(0) : x);
        }
        for (; i < n; i++) {
            float x = (z[i] - most) - tau;
            p[i] = x <= 0.0f ? 0.0f : x;
        }
    }
}

// out = g less its mean over the support of p, inside the support; 0 outside
void sparsemax_gradient(const float *p, const float *g, float *out, long rows, long n) {
    for (long r = 0; r < rows; r++, p += n, g += n, out += n) {
        vec sums = all(0), counts = all(0);
        double sum = 0.0, count = 0.0;
        long i = 0;
        for (; i + LANES <= n; i += LANES) {
            mask inside = load(p + i) != 0.0f;
            sums += inside ? load(g + i) : all(0);
            counts += inside ? all(1) : all(0);
        }
        for (int j = 0; j < LANES; j++) sum += sums[j], count += counts[j];
        for (; i < n; i++)
            if (p[i] != 0.0f) sum += g[i], count += 1.0;
        float mean = (float)(sum / (count > 0.0 ? count : 1.0));
        for (i = 0; i + LANES <= n; i += LANES) {
            mask inside = load(p + i) != 0.0f;
            store(out + i, inside ? load(g + i) - mean : all(0));
        }
        for (; i < n; i++) out[i] = p[i] != 0.0f ? g[i] - mean : 0.0f;
    }
}

}  // extern "C"
