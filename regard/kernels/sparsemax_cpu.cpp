// Sparsemax of rows, the values that it mixes, and their gradients, for sparsemax_cpu.py: no library, no allocation but
// on the stack, one thread.
//
// The threshold τ solves f(τ) = Σ max(z - τ, 0) - 1 = 0, which is convex and falls. Newton's steps from max - 1, where f
// is not below 0, come from the left and end where the support stays the same: at most as many as it has members.
// Only numbers above max - 1 can be in the support, so they are set aside once; the steps run over these few.
//
// Most weights are zero, and so are the gradients of their scores. There, neither keys and values nor their gradients are
// touched.

typedef float vec __attribute__((vector_size(32), aligned(4)));
typedef int mask __attribute__((vector_size(32)));

static const long LANES = 8;
static const long SHORT = 4096;  // numbers of a row whose notes go on the stack

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, mask{__VA_ARGS__})
#endif

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

// the numbers above most - 1, less `most`, to `kept`; how many. Each is written, and the next takes its place if it is none:
// a branch would be guessed wrong as often as right
static long candidates(const float *z, float most, float *kept, long n) {
    long count = 0, i = 0;
    for (; i + LANES <= n; i += LANES)
        if (any(load(z + i) - most > all(-1.0f)))
            for (long j = i; j < i + LANES; j++) {
                kept[count] = z[j] - most;
                count += kept[count] > -1.0f;
            }
    for (; i < n; i++) {
        kept[count] = z[i] - most;
        count += kept[count] > -1.0f;
    }
    return count;
}

// Σ max(x - tau, 0), and of how many: in float over few numbers at a time, in double over all
static double excess(const float *x, long n, float tau, long *inside) {
    double total = 0.0;
    long count = 0, i = 0;
    while (i + LANES <= n) {
        vec sums = all(0);
        mask counts = {};
        for (int block = 0; block < 16 && i + LANES <= n; block++, i += LANES) {
            vec over = load(x + i) - tau;
            mask in = over > all(0);  // -1 where it is
            sums += in ? over : all(0);
            counts += in;
        }
        for (int j = 0; j < LANES; j++) total += sums[j], count -= counts[j];
    }
    for (; i < n; i++)
        if (x[i] > tau) total += x[i] - tau, count++;
    *inside = count;
    return total;
}

static float threshold(const float *kept, long n) {
    float tau = -1.0f;
    for (long before = n + 1, count;;) {
        double step = (excess(kept, n, tau, &count) - 1.0) / count;
        tau = (float)(tau + step);
        if (count >= before) return tau;
        before = count;
    }
}

static inline float sum(vec x) {
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

static float dot(const float *a, const float *b, long d) {
    vec sums[2] = {all(0), all(0)};
    long i = 0;
    for (; i + 2 * LANES <= d; i += 2 * LANES)
        for (int j = 0; j < 2; j++) sums[j] += load(a + i + j * LANES) * load(b + i + j * LANES);
    for (; i + LANES <= d; i += LANES) sums[0] += load(a + i) * load(b + i);
    float total = sum(sums[0] + sums[1]);
    for (; i < d; i++) total += a[i] * b[i];
    return total;
}

// the sums of eight vectors, each over its lanes: by halves, all at once
static inline vec sums(const vec *x) {
    vec pairs[4], fours[2];
    for (int j = 0; j < 4; j++)
        pairs[j] = SHUFFLE(x[2 * j], x[2 * j + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
                   SHUFFLE(x[2 * j], x[2 * j + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    for (int j = 0; j < 2; j++)
        fours[j] = SHUFFLE(pairs[2 * j], pairs[2 * j + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
                   SHUFFLE(pairs[2 * j], pairs[2 * j + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    return SHUFFLE(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

// z = scale · q k for S keys of D numbers, eight keys at a time
static void scores(const float *q, const float *k, float *z, float scale, long S, long D) {
    long s = 0;
    for (; s + LANES <= S; s += LANES, k += LANES * D) {
        vec parts[LANES] = {};
        long i = 0;
        for (; i + LANES <= D; i += LANES) {
            vec x = load(q + i);
            for (long j = 0; j < LANES; j++) parts[j] += x * load(k + j * D + i);
        }
        vec total = sums(parts);
        for (; i < D; i++)
            for (long j = 0; j < LANES; j++) total[j] += q[i] * k[j * D + i];
        store(z + s, scale * total);
    }
    for (; s < S; s++, k += D) z[s] = scale * dot(q, k, D);
}

static void add(float *to, float factor, const float *x, long d) {
    long i = 0;
    for (; i + LANES <= d; i += LANES) store(to + i, load(to + i) + factor * load(x + i));
    for (; i < d; i++) to[i] += factor * x[i];
}

// the places of the weights that are not zero, to `places`; how many
static long support(const float *p, int *places, long n) {
    long count = 0, i = 0;
    for (; i + LANES <= n; i += LANES)
        if (any(load(p + i) != 0.0f))
            for (long j = i; j < i + LANES; j++)
                if (p[j] != 0.0f) places[count++] = (int)j;
    for (; i < n; i++)
        if (p[i] != 0.0f) places[count++] = (int)i;
    return count;
}

// p = sparsemax(z) for one row of n numbers; zeros for a row of -inf. p may be z. `kept` has room for n numbers.
static void normalize(const float *z, float *p, float *kept, long n) {
    float most = largest(z, n);
    if (most == -__builtin_inff()) {
        for (long i = 0; i < n; i++) p[i] = z[i] == z[i] ? 0.0f : z[i];
        return;
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

// to = p v over `count` places, v of d numbers each
static void mix(const float *p, const float *v, float *to, const int *places, long count, long d) {
    for (long i = 0; i < d; i++) to[i] = 0.0f;
    for (long i = 0; i < count; i++) add(to, p[places[i]], v + places[i] * d, d);
}

extern "C" {

// how many weights are not zero
long sparsemax_count(const float *p, long n) {
    long count = 0;
    for (long i = 0; i < n; i++) count += p[i] != 0.0f;
    return count;
}

// Attention in one go: p = sparsemax(scale · q k), out = p v, for the rows from `first` to `last`, T of them to an item,
// which has S keys of D and S values of d numbers. Where `hidden` is given it has S numbers to a row, one row after `by_row` and one
// item after `by_item` of them. `room` has room for 2 S numbers, if S is above SHORT.
void sparsemax_attend(const float *q, const float *k, const float *v, const char *hidden, float *p, float *out, float *room,
                      float scale, long by_item, long by_row, long first, long last, long T, long S, long D, long d) {
    float *kept = S > SHORT ? room : (float *)__builtin_alloca(2 * S * sizeof(float));
    int *places = (int *)(kept + S);
    for (long r = first; r < last; r++) {
        long item = r / T;
        const float *query = q + r * D, *keys = k + item * S * D;
        float *own = p + r * S;
        scores(query, keys, own, scale, S, D);
        if (hidden) {
            const char *h = hidden + item * by_item + r % T * by_row;
            for (long s = 0; s < S; s++) own[s] = h[s] ? -__builtin_inff() : own[s];
        }
        normalize(own, own, kept, S);
        mix(own, v + item * S * d, out + r * d, places, support(own, places, S), d);
    }
}

// out = p v for the rows from `first` to `last`, T of them to an item, which has S values of d numbers.
// `places` has room for S numbers.
void sparsemax_mix(const float *p, const float *v, float *out, int *places, long first, long last, long T, long S, long d) {
    for (long r = first; r < last; r++) {
        const float *own = p + r * S;
        mix(own, v + r / T * S * d, out + r * d, places, support(own, places, S), d);
    }
}

// From g, the gradient of the context: the gradients of q, k and v, for the items from `first` to `last`. Of each row the
// slopes inside the support, less their mean, are the gradient of its scores, scale · q k.
// `room` has room for 2 S numbers, if S is above SHORT.
void sparsemax_product_gradient(const float *p, const float *q, const float *k, const float *v, const float *g, float *of_q,
                                float *of_k, float *of_v, float *room, float scale, long first, long last, long T, long S,
                                long D, long d) {
    float *slopes = S > SHORT ? room : (float *)__builtin_alloca(2 * S * sizeof(float));
    int *places = (int *)(slopes + S);
    long items = last - first;
    __builtin_memset(of_q + first * T * D, 0, items * T * D * sizeof(float));
    __builtin_memset(of_k + first * S * D, 0, items * S * D * sizeof(float));
    __builtin_memset(of_v + first * S * d, 0, items * S * d * sizeof(float));
    for (long r = first * T; r < last * T; r++) {
        long item = r / T;
        const float *own = p + r * S, *query = q + r * D, *keys = k + item * S * D, *values = v + item * S * d;
        const float *grad = g + r * d;
        long count = support(own, places, S);
        double sum = 0.0;
        for (long i = 0; i < count; i++) {
            slopes[i] = dot(grad, values + places[i] * d, d);
            sum += slopes[i];
            add(of_v + (item * S + places[i]) * d, own[places[i]], grad, d);
        }
        float mean = (float)(sum / (count > 0 ? count : 1));
        for (long i = 0; i < count; i++) {
            float slope = (slopes[i] - mean) * scale;
            add(of_q + r * D, slope, keys + places[i] * D, D);
            add(of_k + (item * S + places[i]) * D, slope, query, D);
        }
    }
}

// p = sparsemax(z) for rows of n numbers; p may be z. `kept` has room for n numbers.
void sparsemax_rows(const float *z, float *p, float *kept, long rows, long n) {
    for (long r = 0; r < rows; r++, z += n, p += n) normalize(z, p, kept, n);
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
