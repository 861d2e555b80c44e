// Sparsemax of rows, attention with it, and their gradients, for sparsemax_cpu.py: no library, one thread. Each loop goes from
// `first` to `last`, so that several threads can share it. Its arguments come packed into one record of eight-byte fields:
// passing one argument from Python takes half the time of passing fifteen.
//
// The threshold τ solves f(τ) = Σ max(z - τ, 0) - 1 = 0, which is convex and decreasing. Newton's steps from max - 1, where
// f >= 0, approach from the left and end when the support stays the same: after at most as many steps as it has members.
// Only numbers above max - 1 can be in the support, so they are collected once, and the steps run over these few. For up to
// two vectors of them the support is found without steps.
//
// Most weights are zero, and so are the gradients of their scores. There, neither keys and values nor their gradients are
// touched.

typedef float vec __attribute__((vector_size(32), aligned(4)));
typedef int mask __attribute__((vector_size(32)));

static const long LANES = 8;
static const long SHORT = 4096;  // longest row whose notes fit on the stack
static const long QUERIES = 4, KEYS = 2 * LANES;  // per tile of scores
static const long WIDE = 1024;  // most features for which the keys of a tile are transposed

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, mask{__VA_ARGS__})
#endif

// keeps x in a register: gcc would reload it for each use
#ifdef __AVX__
#define HOLD(x) __asm__("" : "+x"(x))
#else
#define HOLD(x)
#endif

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec x) { *(vec *)p = x; }
static inline vec all(float x) { return vec{x, x, x, x, x, x, x, x}; }

// one bit for each lane that is true, the first lane lowest
static inline unsigned bits(mask m) {
#ifdef __AVX__
    return __builtin_ia32_movmskps256((vec)m);
#else
    unsigned found = 0;
    for (int j = 0; j < LANES; j++) found |= (m[j] & 1u) << j;
    return found;
#endif
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

// scratch space for a row: n numbers, LANES more to pad the last vector, and n indices
struct Notes {
    float few[SHORT + LANES];
    int places_of_few[SHORT];
    float *kept;
    int *places;
    bool are_few;
    explicit Notes(long n) : kept(few), places(places_of_few), are_few(n <= SHORT) {
        if (are_few) return;
        kept = (float *)__builtin_malloc((n + LANES) * sizeof(float));
        places = (int *)__builtin_malloc(n * sizeof(int));
    }
    ~Notes() {
        if (are_few) return;
        __builtin_free(kept);
        __builtin_free(places);
    }
};

// stores the numbers above most - 1, minus `most`, in `kept`, padded with -1; returns how many
static long candidates(const float *z, float most, float *kept, long n) {
    long count = 0, i = 0;
    for (; i + LANES <= n; i += LANES)
        for (unsigned left = bits(load(z + i) - most > all(-1.0f)); left; left &= left - 1)
            kept[count++] = z[i + __builtin_ctz(left)] - most;
    for (; i < n; i++) {
        kept[count] = z[i] - most;
        count += kept[count] > -1.0f;
    }
    store(kept + count, all(-1.0f));
    return count;
}

static inline double wide_sum(vec x) {
    typedef float half __attribute__((vector_size(16)));
    typedef double wide __attribute__((vector_size(32)));
    half halves[2];
    __builtin_memcpy(halves, &x, sizeof x);
    wide y = __builtin_convertvector(halves[0], wide) + __builtin_convertvector(halves[1], wide);
    return (y[0] + y[1]) + (y[2] + y[3]);
}

// Σ max(x - tau, 0) over n numbers padded with -1 (<= tau), and how many are above tau; short partial sums in float, the total
// in double
static double excess(const float *x, long n, float tau, long *inside) {
    double total = 0.0;
    long count = 0;
    for (long i = 0; i < n;) {
        vec sums = all(0);
        mask counts = {};
        for (int block = 0; block < 16 && i < n; block++, i += LANES) {
            vec over = load(x + i) - tau;
            mask in = over > all(0);  // -1 where true
            sums += in ? over : all(0);
            counts += in;
        }
        total += wide_sum(sums);
        count -= ((counts[0] + counts[1]) + (counts[2] + counts[3])) + ((counts[4] + counts[5]) + (counts[6] + counts[7]));
    }
    *inside = count;
    return total;
}

// The threshold of up to V vectors of candidates at once: x is in the support if Σ max(candidate - x, 0) < 1. There are no
// branches; -1, which pads the last vector, is never inside, since the largest candidate is 0.
template <int V>
static float threshold_of_few(const float *kept) {
    vec above[V] = {};
    for (long j = 0; j < V * LANES; j++)
        for (int i = 0; i < V; i++) {
            vec over = kept[j] - load(kept + i * LANES);
            above[i] += over > 0.0f ? over : all(0);
        }
    double total = -1.0;
    int count = 0;
    for (int i = 0; i < V; i++) {
        mask inside = above[i] < 1.0f;
        total += wide_sum(inside ? load(kept + i * LANES) : all(0));
        count += __builtin_popcount(bits(inside));
    }
    return (float)(total / count);
}

static float threshold(const float *kept, long n) {
    if (n > 0 && n <= LANES) return threshold_of_few<1>(kept);
    if (n > 0 && n <= 2 * LANES) return threshold_of_few<2>(kept);
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
    vec sums[4] = {};
    long i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES)
        for (int c = 0; c < 4; c++) sums[c] += load(a + i + c * LANES) * load(b + i + c * LANES);
    for (; i + LANES <= d; i += LANES) sums[0] += load(a + i) * load(b + i);
    float total = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < d; i++) total += a[i] * b[i];
    return total;
}

// the sums of eight vectors, each over its lanes, by halving, all at once
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

// transpose of LANES rows of D numbers: to[i] = number i of each row; rows of `to` have stride KEYS
static void transpose(const float *rows, float *to, long D) {
    long i = 0;
    for (; i + LANES <= D; i += LANES) {
        vec x[LANES], y[LANES];
        for (int j = 0; j < LANES; j++) x[j] = load(rows + j * D + i);
        for (int j = 0; j < LANES; j += 2) {
            y[j] = SHUFFLE(x[j], x[j + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            y[j + 1] = SHUFFLE(x[j], x[j + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        for (int j = 0; j < LANES; j += 4)
            for (int h = 0; h < 2; h++) {
                x[j + 2 * h] = SHUFFLE(y[j + h], y[j + 2 + h], 0, 1, 8, 9, 4, 5, 12, 13);
                x[j + 2 * h + 1] = SHUFFLE(y[j + h], y[j + 2 + h], 2, 3, 10, 11, 6, 7, 14, 15);
            }
        for (int j = 0; j < 4; j++) {
            store(to + (i + j) * KEYS, SHUFFLE(x[j], x[j + 4], 0, 1, 2, 3, 8, 9, 10, 11));
            store(to + (i + j + 4) * KEYS, SHUFFLE(x[j], x[j + 4], 4, 5, 6, 7, 12, 13, 14, 15));
        }
    }
    for (; i < D; i++)
        for (int j = 0; j < LANES; j++) to[i * KEYS + j] = rows[j * D + i];
}

// z = scale · q k for R queries and KEYS transposed keys; rows of z have stride S
template <int R>
static void tile(const float *q, const float *transposed, float *z, float scale, long S, long D) {
    vec sums[R][2] = {};
    for (long i = 0; i < D; i++, transposed += KEYS) {
        vec k[2] = {load(transposed), load(transposed + LANES)};
        HOLD(k[0]);
        HOLD(k[1]);
        for (int r = 0; r < R; r++)
            for (int j = 0; j < 2; j++) sums[r][j] += q[r * D + i] * k[j];
    }
    for (int r = 0; r < R; r++)
        for (int j = 0; j < 2; j++) store(z + r * S + j * LANES, scale * sums[r][j]);
}

// the same for `rows` of T queries and S keys, which are transposed if T is large enough; the result does not depend on how
// threads split the rows
static void all_scores(const float *q, const float *k, float *z, float scale, long rows, long T, long S, long D) {
    long s = 0;
    if (T >= QUERIES && D <= WIDE) {
        float transposed[WIDE * KEYS];
        for (; s + KEYS <= S; s += KEYS) {
            transpose(k + s * D, transposed, D);
            transpose(k + (s + LANES) * D, transposed + LANES, D);
            long r = 0;
            for (; r + QUERIES <= rows; r += QUERIES) tile<QUERIES>(q + r * D, transposed, z + r * S + s, scale, S, D);
            for (; r < rows; r++) tile<1>(q + r * D, transposed, z + r * S + s, scale, S, D);
        }
    }
    for (long r = 0; s < S && r < rows; r++) scores(q + r * D, k + s * D, z + r * S + s, scale, S - s, D);
}

static void add(float *to, float factor, const float *x, long d) {
    long i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES) {
        vec sums[4];
        for (int c = 0; c < 4; c++) sums[c] = load(to + i + c * LANES) + factor * load(x + i + c * LANES);
        for (int c = 0; c < 4; c++) store(to + i + c * LANES, sums[c]);
    }
    for (; i + LANES <= d; i += LANES) store(to + i, load(to + i) + factor * load(x + i));
    for (; i < d; i++) to[i] += factor * x[i];
}

// stores the nonzero weights in `kept` and their indices in `places`; returns how many
static long support(const float *p, float *kept, int *places, long n) {
    long count = 0, i = 0;
    for (; i + LANES <= n; i += LANES)
        for (unsigned left = bits(load(p + i) != 0.0f); left; left &= left - 1) {
            long j = i + __builtin_ctz(left);
            kept[count] = p[j];
            places[count++] = (int)j;
        }
    for (; i < n; i++) {
        kept[count] = p[i];
        places[count] = (int)i;
        count += p[i] != 0.0f;
    }
    return count;
}

// p = sparsemax(z) for one row of n numbers; zeros for a row of -inf. p may be z. `kept` has room for n + LANES numbers.
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

// to = p v over `count` indices, v of d numbers each; sums stay in registers, four vectors at a time
static void mix(const float *p, const int *places, long count, const float *v, float *to, long d) {
    long j = 0;
    for (; j + 4 * LANES <= d; j += 4 * LANES) {
        vec sums[4] = {};
        for (long i = 0; i < count; i++)
            for (int c = 0; c < 4; c++) sums[c] += p[i] * load(v + places[i] * d + j + c * LANES);
        for (int c = 0; c < 4; c++) store(to + j + c * LANES, sums[c]);
    }
    for (long i = j; i < d; i++) to[i] = 0.0f;
    for (long i = 0; i < count && j < d; i++) add(to + j, p[i], v + places[i] * d + j, d - j);
}

extern "C" {

// how many weights are nonzero
long sparsemax_count(const float *p, long n) {
    mask lanes = {};
    long count = 0, i = 0;
    for (; i + LANES <= n; i += LANES) lanes -= load(p + i) != 0.0f;  // -1 where true
    for (; i < n; i++) count += p[i] != 0.0f;
    for (int j = 0; j < LANES; j++) count += lanes[j];
    return count;
}

struct Attend {
    long long first, last;
    const float *q, *k, *v;
    const char *hidden;
    float *p, *out;
    double scale;
    long long by_item, by_row, T, S, D, d;
};

// Attention in one pass: p = sparsemax(scale · q k), out = p v. Each item has T rows, S keys of D numbers and S values of d numbers.
// `hidden`, unless null, has S flags per row, with strides `by_row` and `by_item`.
void sparsemax_attend(const Attend *given) {
    const Attend a = *given;
    const long T = a.T, S = a.S, D = a.D, d = a.d;
    Notes notes(S);
    for (long r = a.first, end; r < a.last; r = end) {
        long item = r / T;
        end = (item + 1) * T < a.last ? (item + 1) * T : a.last;
        all_scores(a.q + r * D, a.k + item * S * D, a.p + r * S, (float)a.scale, end - r, T, S, D);
        for (long t = r; t < end; t++) {
            float *own = a.p + t * S;
            if (a.hidden) {
                const char *h = a.hidden + item * a.by_item + t % T * a.by_row;
                for (long s = 0; s < S; s++) own[s] = h[s] ? -__builtin_inff() : own[s];
            }
            normalize(own, own, notes.kept, S);
            long count = support(own, notes.kept, notes.places, S);
            mix(notes.kept, notes.places, count, a.v + item * S * d, a.out + t * d, d);
        }
    }
}

struct Mix {
    long long first, last;
    const float *p, *v;
    float *out;
    long long T, S, d;
};

// out = p v; each item has T rows and S values of d numbers
void sparsemax_mix(const Mix *given) {
    const Mix a = *given;
    Notes notes(a.S);
    for (long r = a.first; r < a.last; r++) {
        long count = support(a.p + r * a.S, notes.kept, notes.places, a.S);
        mix(notes.kept, notes.places, count, a.v + r / a.T * a.S * a.d, a.out + r * a.d, a.d);
    }
}

struct ProductGradient {
    long long first, last;
    const float *p, *q, *k, *v, *g;
    float *of_q, *of_k, *of_v;
    double scale;
    long long T, S, D, d;
};

// The gradients of q, k and v of items from g, the gradient of the context. Within the support of a row, the gradient of its scores
// (scale · q k) is that of its weights minus the mean.
void sparsemax_product_gradient(const ProductGradient *given) {
    const ProductGradient a = *given;
    const long T = a.T, S = a.S, D = a.D, d = a.d, items = a.last - a.first;
    Notes notes(S);
    float *kept = notes.kept;
    int *places = notes.places;
    __builtin_memset(a.of_k + a.first * S * D, 0, items * S * D * sizeof(float));
    __builtin_memset(a.of_v + a.first * S * d, 0, items * S * d * sizeof(float));
    for (long r = a.first * T; r < a.last * T; r++) {
        long item = r / T;
        const float *query = a.q + r * D, *grad = a.g + r * d, *values = a.v + item * S * d;
        float *to_keys = a.of_k + item * S * D, *to_values = a.of_v + item * S * d;
        long count = support(a.p + r * S, kept, places, S);
        double sum = 0.0;
        for (long i = 0; i < count; i++) {
            add(to_values + places[i] * d, kept[i], grad, d);
            kept[i] = dot(grad, values + places[i] * d, d);
            sum += kept[i];
        }
        float mean = (float)(sum / (count > 0 ? count : 1));
        for (long i = 0; i < count; i++) {
            kept[i] = (kept[i] - mean) * (float)a.scale;
            add(to_keys + places[i] * D, kept[i], query, D);
        }
        mix(kept, places, count, a.k + item * S * D, a.of_q + r * D, D);
    }
}

struct Rows {
    long long first, last;
    const float *z;
    float *p;
    long long n;
};

// p = sparsemax(z) for rows of n numbers; p may be z
void sparsemax_rows(const Rows *given) {
    const Rows a = *given;
    Notes notes(a.n);
    for (long r = a.first; r < a.last; r++) normalize(a.z + r * a.n, a.p + r * a.n, notes.kept, a.n);
}

struct Gradient {
    long long first, last;
    const float *p, *g;
    float *out;
    long long n;
};

// out = g minus its mean over the support of p, inside the support; 0 outside
void sparsemax_gradient(const Gradient *given) {
    const long n = given->n;
    for (long r = given->first; r < given->last; r++) {
        const float *p = given->p + r * n, *g = given->g + r * n;
        float *out = given->out + r * n;
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
