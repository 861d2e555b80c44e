// One step of a Transformer's decoder for rows of words, for decoder_cpu.py: all layers, the scores of all words, the best of them.
//
// A product x Wᵀ + b reads W in panels of COLUMNS outputs, (K, COLUMNS) each: in access order. The sum over K has the same order for
// any number of rows, so a row's result does not depend on the other rows.

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 12  // per tile: ROWS x 2 vectors of sums stay in registers
#elif defined(__AVX__)
#define LANES 8
#define ROWS 6
#else
#define LANES 4
#define ROWS 6
#endif
#define COLUMNS (2 * LANES)

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4)));

static const long PIECE = 256;  // products per partial sum, which keeps the rounding of long sums small

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec x) { *(vec *)p = x; }
static inline vec all(float x) { return vec{} + x; }

static inline float sum(vec x) {
    float part[LANES];
    store(part, x);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

static inline float largest(vec x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = most < x[i] ? x[i] : most;
    return most;
}

// e^x within two ulp, for x <= 0; zero below -87
static inline vec exponential(vec x) {
    vec low = all(-87.3f), one = all(1.0f);
    ints tiny = x < low;
    x = tiny ? low : x;
    const float magic = 12582912.0f;  // 1.5 · 2²³: adding it rounds to an integer
    vec n = x * 1.44269504f + magic;
    ints power = (ints)n << 23;
    n -= magic;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + one;
    vec found = (vec)((ints)p + power);
    return tiny ? vec{} : found;
}

// R rows of x against one panel; prefetches `next`, `ahead` elements for each of K
template <int R>
static void tile(const float *x, long K, const float *panel, const float *bias, bool relu, float *out, long N, long columns,
                 const float *next, long ahead) {
    vec total[R][2];
    for (int i = 0; i < R; i++)
        for (int j = 0; j < 2; j++) total[i][j] = load(bias + j * LANES);
    for (long start = 0; start < K; start += PIECE) {
        long end = start + PIECE < K ? start + PIECE : K;
        vec sums[R][2];
        for (int i = 0; i < R; i++) sums[i][0] = sums[i][1] = vec{};
        for (long k = start; k < end; k++) {
            vec left = load(panel + k * COLUMNS), right = load(panel + k * COLUMNS + LANES);
            __builtin_prefetch(next + k * ahead);
            for (int i = 0; i < R; i++) {
                float a = x[i * K + k];
                sums[i][0] += a * left;
                sums[i][1] += a * right;
            }
        }
        for (int i = 0; i < R; i++) total[i][0] += sums[i][0], total[i][1] += sums[i][1];
    }
    for (int i = 0; i < R; i++) {
        if (relu)
            for (int j = 0; j < 2; j++) total[i][j] = total[i][j] < 0.0f ? vec{} : total[i][j];
        if (columns == COLUMNS)
            store(out + i * N, total[i][0]), store(out + i * N + LANES, total[i][1]);
        else
            memcpy(out + i * N, total[i], columns * sizeof(float));
    }
}


typedef void (*Tile)(const float *, long, const float *, const float *, bool, float *, long, long, const float *, long);
static const Tile TILES[] = {
    nullptr, tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>,
#if ROWS > 6
    tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>,
#endif
};

struct Affine {
    const float *panels, *bias;  // (P, in, COLUMNS), (P · COLUMNS)
    long in, out;
};

// out (R, W.out) = x (R, W.in) Wᵀ + b; the columns of panels begin to end, or of all
static void product(const Affine &W, const float *x, float *out, long R, bool relu = false, long begin = 0, long end = LONG_MAX) {
    if (R == 0) return;  // there would be no blocks to divide by
    long blocks = (R + ROWS - 1) / ROWS, ahead = COLUMNS / blocks;
    for (long p = begin, n = p * COLUMNS; p < end && n < W.out; p++, n += COLUMNS) {
        long columns = W.out - n < COLUMNS ? W.out - n : COLUMNS;
        for (long b = 0; b < blocks; b++) {
            long first = R * b / blocks, last = R * (b + 1) / blocks;
            const float *panel = W.panels + n * W.in, *next = panel + (COLUMNS + b * ahead) * W.in;
            TILES[last - first](x + first * W.in, W.in, panel, W.bias + n, relu, out + first * W.out + n, W.out, columns, next, ahead);
        }
    }
}

struct Norm {
    const float *weight, *bias;
    float eps;
};

struct Layer {
    Affine qkv, out, source_query, source_out, first, second;
    Norm norms[3];
    float scale, source_scale;
};

struct Decoder {
    const Layer *layers;
    long number, dim, heads, features, wide;  // features of a head; the most numbers of a row between two products
    long pre, has_last;
    Norm last;
    Affine readout;
};

struct Source {
    const float *keys, *values;  // (B, heads, S, features), with the strides below
    const bool *shown;           // (B, S), or null: all
    long keys_item, keys_head, keys_place, values_item, values_head, values_place;
};

struct Step {
    const Decoder *decoder;
    const Source *sources;  // one per layer
    float *const *written;  // one per position, (layers, rows, 2 · heads · features): keys and values
    const long *rows;       // one per position
    const long *from;       // (t, R): the row of each earlier position that each row continues
    const float *words;     // (R, dim)
    float *out;             // (R, V): log-probabilities of the next word
    long t, R, copies, S;
};

static inline float dot(const float *x, const float *y, long n) {
    vec total = vec{};
    long i = 0;
    for (; i + LANES <= n; i += LANES) total += load(x + i) * load(y + i);
    float rest = 0;
    for (; i < n; i++) rest += x[i] * y[i];
    return sum(total) + rest;
}

static inline void add(float *to, const float *x, long n) {
    for (long i = 0; i < n; i++) to[i] += x[i];
}

// x[0..n) -> e^(x - most); returns the sum; `x` has room for whole vectors
static inline float exponentials(float *x, float most, long n) {
    vec total = vec{};
    for (long i = n; i % LANES; i++) x[i] = -INFINITY;
    for (long i = 0; i < n; i += LANES) {
        vec e = exponential(load(x + i) - most);
        store(x + i, e);
        total += e;
    }
    return sum(total);
}

// scores[0..n) -> weights
static inline void softmax(float *scores, long n) {
    float most = -INFINITY;
    for (long i = 0; i < n; i++) most = most < scores[i] ? scores[i] : most;
    float inverse = 1 / exponentials(scores, most, n);
    for (long i = 0; i < n; i++) scores[i] *= inverse;
}

// out[0..V vectors) = Σ_p weights[p] values[p]
template <int V>
static inline void mix(const float *weights, const float *const *values, long at, long n, float *out) {
    vec total[V] = {};
    for (long p = 0; p < n; p++)
        for (int j = 0; j < V; j++) total[j] += weights[p] * load(values[p] + at + j * LANES);
    for (int j = 0; j < V; j++) store(out + j * LANES, total[j]);
}

// One head of a row: its query against n keys, and the weighted sum of their values; zeros if n is 0.
static void attend(const float *query, const float *const *keys, long key_at, const float *const *values, long value_at, long n,
                   float scale, float *scores, float *out, long F) {
    for (long p = 0; p < n; p++) scores[p] = scale * dot(query, keys[p] + key_at, F);
    if (n) softmax(scores, n);
    long f = 0;
    for (; f + 4 * LANES <= F; f += 4 * LANES) mix<4>(scores, values, value_at + f, n, out + f);
    for (; f + LANES <= F; f += LANES) mix<1>(scores, values, value_at + f, n, out + f);
    for (; f < F; f++) {
        out[f] = 0;
        for (long p = 0; p < n; p++) out[f] += scores[p] * values[p][value_at + f];
    }
}

// y = (z - μ) / σ · g + b with z = x + change, one row; `change` may be null, y may be x
static inline void norm(const Norm &with, const float *x, const float *change, float *y, long n) {
    float mean = 0, variance = 0;
    for (long i = 0; i < n; i++) y[i] = change ? x[i] + change[i] : x[i];
    vec total = vec{};
    long i = 0;
    for (; i + LANES <= n; i += LANES) total += load(y + i);
    for (mean = sum(total); i < n; i++) mean += y[i];
    mean /= n;
    total = vec{};
    for (i = 0; i + LANES <= n; i += LANES) {
        vec apart = load(y + i) - mean;
        total += apart * apart;
    }
    for (variance = sum(total); i < n; i++) variance += (y[i] - mean) * (y[i] - mean);
    float inverse = 1 / std::sqrt(variance / n + with.eps);
    for (i = 0; i < n; i++) y[i] = (y[i] - mean) * inverse * with.weight[i] + with.bias[i];
}

// Scratch space for the positions that a row sees.
struct Seen {
    std::vector<const float *> keys, values;
    std::vector<float> scores;
    explicit Seen(long most) : keys(most), values(most), scores(most + LANES) {}
};

static inline void fetch(const float *x, long n) {
    for (long i = 0; i < n; i += 16) __builtin_prefetch(x + i);  // 64 bytes
}

// Self-attention of row r in each head; its own keys and values are written first.
static void look_back(const Step &s, long layer, const float *qkv, float *context, Seen &seen, long r) {
    const Decoder &d = *s.decoder;
    long F = d.features, width = d.heads * F;
    memcpy(s.written[s.t] + (layer * s.R + r) * 2 * width, qkv + width, 2 * width * sizeof(float));
    for (long p = 0; p <= s.t; p++) {
        long row = p < s.t ? s.from[p * s.R + r] : r;
        seen.keys[p] = s.written[p] + (layer * s.rows[p] + row) * 2 * width;
        seen.values[p] = seen.keys[p] + width;
        fetch(seen.keys[p], 2 * width);
    }
    for (long h = 0; h < d.heads; h++)
        attend(qkv + h * F, seen.keys.data(), h * F, seen.values.data(), h * F, s.t + 1, d.layers[layer].scale,
               seen.scores.data(), context + h * F, F);
}

// Cross-attention of row r to its source in each head.
static void look_over(const Step &s, long layer, const float *query, float *context, Seen &seen, long r) {
    const Decoder &d = *s.decoder;
    const Source &source = s.sources[layer];
    long F = d.features, item = r / s.copies, n = 0;
    for (long p = 0; p < s.S; p++)
        if (!source.shown || source.shown[item * s.S + p]) {
            seen.keys[n] = source.keys + item * source.keys_item + p * source.keys_place;
            seen.values[n] = source.values + item * source.values_item + p * source.values_place;
            for (long h = 0; h < d.heads; h++)
                fetch(seen.keys[n] + h * source.keys_head, F), fetch(seen.values[n] + h * source.values_head, F);
            n++;
        }
    for (long h = 0; h < d.heads; h++)
        attend(query + h * F, seen.keys.data(), h * source.keys_head, seen.values.data(), h * source.values_head, n,
               d.layers[layer].source_scale, seen.scores.data(), context + h * F, F);
}

// x (R, dim) through all layers
static void through_layers(const Step &s, float *x, long first, long R, Seen &seen) {
    const Decoder &d = *s.decoder;
    long dim = d.dim, width = d.heads * d.features;
    static thread_local std::vector<float> room;  // reused: allocating it takes longer than a small step
    room.resize(R * (2 * dim + d.wide + width));
    float *h = room.data(), *normal = h + R * dim, *wide = normal + R * dim, *context = wide + R * d.wide;
    // the input of a sub-layer, and how its output is added to x
    auto opened = [&](const Norm &with) -> const float * {
        if (!d.pre) return x;
        for (long r = 0; r < R; r++) norm(with, x + r * dim, nullptr, normal + r * dim, dim);
        return normal;
    };
    auto closed = [&](const Norm &with) {
        for (long r = 0; r < R; r++)
            if (d.pre)
                add(x + r * dim, h + r * dim, dim);
            else
                norm(with, x + r * dim, h + r * dim, x + r * dim, dim);
    };
    for (long l = 0; l < d.number; l++) {
        const Layer &layer = d.layers[l];
        product(layer.qkv, opened(layer.norms[0]), wide, R);
        for (long r = 0; r < R; r++) look_back(s, l, wide + r * 3 * width, context + r * width, seen, first + r);
        product(layer.out, context, h, R);
        closed(layer.norms[0]);
        product(layer.source_query, opened(layer.norms[1]), wide, R);
        for (long r = 0; r < R; r++) look_over(s, l, wide + r * width, context + r * width, seen, first + r);
        product(layer.source_out, context, h, R);
        closed(layer.norms[1]);
        product(layer.first, opened(layer.norms[2]), wide, R, true);
        product(layer.second, wide, h, R);
        closed(layer.norms[2]);
    }
    if (d.has_last)
        for (long r = 0; r < R; r++) norm(d.last, x + r * dim, nullptr, x + r * dim, dim);
}

// x -> x - log Σ e^x, one row
static void log_softmax(float *x, long n, std::vector<float> &room) {
    float most = -INFINITY, total = 0;
    long i = 0;
    vec highest = all(-INFINITY);
    for (; i + LANES <= n; i += LANES) {
        vec next = load(x + i);
        highest = highest < next ? next : highest;
    }
    for (most = largest(highest); i < n; i++) most = most < x[i] ? x[i] : most;
    vec sums = vec{};
    for (i = 0; i + LANES <= n; i += LANES) sums += exponential(load(x + i) - most);
    memcpy(room.data(), x + i, (n - i) * sizeof(float));
    total = sum(sums) + (i < n ? exponentials(room.data(), most, n - i) : 0);
    float shift = most + std::log(total);
    for (i = 0; i < n; i++) x[i] -= shift;
}

// whether a ranks before b; NaN ranks first, so that it is noticed
static inline bool before(float a, float b) { return a > b || (a != a && b == b); }

extern "C" {

long decoder_columns() { return COLUMNS; }

// The step of rows first to last - 1.
void decoder_step(const Step *step, long first, long last) {
    const Step &s = *step;
    const Decoder &d = *s.decoder;
    long R = last - first, V = d.readout.out, longest = s.t + 1 > s.S ? s.t + 1 : s.S;
    std::vector<float> x(s.words + first * d.dim, s.words + last * d.dim);
    Seen seen(longest);
    through_layers(s, x.data(), first, R, seen);
    product(d.readout, x.data(), s.out + first * V, R);
    for (long r = first; r < last; r++) log_softmax(s.out + r * V, V, seen.scores);
}

// out (R, W.out) = x (R, W.in) Wᵀ + b, columns of panels begin to end.
void decoder_product(const Affine *W, const float *x, float *out, long R, long begin, long end) {
    product(*W, x, out, R, false, begin, end);
}

// The k best of each row of x (rows, n), best first, ties by position; `barred` count as -INFINITY.
void decoder_best(const float *x, long n, const long *barred, long bars, long k, float *values, long *tokens, long first, long last) {
    for (long r = first; r < last; r++) {
        const float *row = x + r * n;
        float *best = values + r * k;
        long *which = tokens + r * k, found = 0;
        for (long i = 0; i < n;) {
            if (found == k && i + LANES <= n) {  // skip vectors with nothing better, which most are
                ints worse = load(row + i) <= all(best[k - 1]);
                int32_t any = -1;
                for (int j = 0; j < LANES; j++) any &= worse[j];
                if (any) {
                    i += LANES;
                    continue;
                }
            }
            for (long end = i + LANES < n ? i + LANES : n; i < end; i++) {
                float value = row[i];
                for (long b = 0; b < bars; b++)
                    if (barred[b] == i) value = -INFINITY;
                if (found == k && !before(value, best[k - 1])) continue;
                long at = found < k ? found++ : k - 1;
                for (; at > 0 && before(value, best[at - 1]); at--) best[at] = best[at - 1], which[at] = which[at - 1];
                best[at] = value, which[at] = i;
            }
        }
    }
}

// A digest of x[0..n), to detect stale packed weights. Version counters would not do, since fused optimizers do not increment them.
uint64_t decoder_digest(const uint32_t *x, long n) {
    const int parts = 64;  // side by side: each waits for its own product only
    uint64_t digest[parts];
    for (int j = 0; j < parts; j++) digest[j] = 0x9E3779B97F4A7C15u + j;
    long i = 0;
    for (; i + parts <= n; i += parts)
        for (int j = 0; j < parts; j++) digest[j] = (digest[j] ^ x[i + j]) * 0xD6E8FEB86659FD93u, digest[j] ^= digest[j] >> 32;
    uint64_t total = n;
    for (; i < n; i++) total = (total ^ x[i]) * 0xD6E8FEB86659FD93u, total ^= total >> 32;
    for (int j = 0; j < parts; j++) total = (total ^ digest[j]) * 0xD6E8FEB86659FD93u, total ^= total >> 32;
    return total;
}

}  // extern "C"
