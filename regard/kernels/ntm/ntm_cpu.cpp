// A Neural Turing Machine's run over whole sequences and its gradient, for ntm_cpu.py: no library, one thread.
//
// A few sequences are stepped together, so that a matrix is read once for all of them. The memory is stored transposed, (M, N), so
// that every loop of equations 2 to 9 runs along the rows, contiguously. The order of a sequence's sums does not depend on the
// sequences next to it.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define COLUMNS (2 * LANES)

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

static const float TINY = 1.1754943508222875e-38f;  // the smallest normal number
static const long TOGETHER = 8;                     // sequences stepped together
static const long ROWS = 4;                         // per tile of a product

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec x) { *(vec *)p = x; }

static inline float dot(const float *x, const float *y, long n) {
    vec total[2] = {};
    long i = 0;
    for (; i + COLUMNS <= n; i += COLUMNS)
        for (int j = 0; j < 2; j++) total[j] += load(x + i + j * LANES) * load(y + i + j * LANES);
    float part[LANES], rest = 0;
    store(part, total[0] + total[1]);
    for (; i < n; i++) rest += x[i] * y[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++) part[j] += part[j + half];
    return part[0] + rest;
}

// y += a x
static inline void add(float *__restrict y, float a, const float *__restrict x, long n) {
    for (long i = 0; i < n; i++) y[i] += a * x[i];
}

static inline float as_float(int x) { float y; return memcpy(&y, &x, 4), y; }
static inline int as_int(float x) { int y; return memcpy(&y, &x, 4), y; }

// The scalar functions are plain arithmetic, so that the compiler vectorizes the loops around them.

// e^x within two ulp, for x <= 80; zero below -87
static inline float exponential(float x) {
    float kept = x < -87.3f ? -87.3f : x, magic = 12582912.0f;  // 1.5 · 2²³: adding it rounds to an integer
    float n = kept * 1.44269504f + magic;
    int power = (int)((unsigned)as_int(n) << 23);
    n -= magic;
    float r = kept - n * 0.693359375f + n * 2.12194440e-4f, p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    float found = as_float(as_int(p) + power) + (kept - kept);  // NaN stays
    return x < -87.3f ? 0.0f : found;
}

// log x for normal numbers
static inline float logarithm(float x) {
    int bits = as_int(x), power = (bits - 0x3f3504f3) >> 23;  // x = 2^power (1 + m), 1 + m between √½ and √2
    float n = (float)power, m = as_float((int)((unsigned)bits - ((unsigned)power << 23))) - 1.0f;
    float z = m * m, y = 7.0376836292e-2f;
    y = y * m - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    return (y * m * z - n * 2.12194440e-4f - 0.5f * z) + m + n * 0.693359375f + (x - x);  // NaN stays
}

static inline float tangent(float x) {
    float e = exponential(-2.0f * std::fabs(x));
    return std::copysign((1.0f - e) / (1.0f + e), x);
}

static inline float logistic(float x) {
    float e = exponential(-std::fabs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }

// x -> softmax(a x), a > 0; also the largest a x and the sum of e^(a x - largest)
static void softmax(const float *__restrict x, float a, float *__restrict to, long n, float &most, float &total) {
    float high = -INFINITY, sum = 0;
    vec highest = vec{} - INFINITY, sums = {};
    long i = 0;
    for (; i + LANES <= n; i += LANES) highest = load(x + i) <= highest ? highest : load(x + i);  // NaN stays
    for (int j = 0; j < LANES; j++) high = highest[j] <= high ? high : highest[j];
    for (; i < n; i++) high = x[i] <= high ? high : x[i];
    high *= a;
    for (i = 0; i < n; i++) to[i] = exponential(a * x[i] - high);
    for (i = 0; i + LANES <= n; i += LANES) sums += load(to + i);
    for (; i < n; i++) sum += to[i];
    for (int j = 0; j < LANES; j++) sum += sums[j];
    for (i = 0; i < n; i++) to[i] /= sum;
    most = high, total = sum;
}

// w (g - Σ g w): the gradient of a softmax
static void softmax_slopes(const float *w, const float *g, float *to, long n) {
    float mean = dot(w, g, n);
    for (long i = 0; i < n; i++) to[i] = w[i] * (g[i] - mean);
}

struct Rows {
    const float *at;
    long apart;  // stride
};

// to = start + x W for W (in, out), whose rows are padded to whole tiles; a null start counts as zero
static void product(const float *W, long in, long out, Rows x, Rows start, float *to, long apart, long rows) {
    long stride = (out + COLUMNS - 1) / COLUMNS * COLUMNS;
    for (long c = 0; c < out; c += COLUMNS)
        for (long r = 0; r < rows; r += ROWS) {
            vec total[ROWS][2] = {};
            const float *from[ROWS];
            size_t bytes = std::min<long>(COLUMNS, out - c) * sizeof(float);
            for (long i = 0; i < ROWS; i++) {
                long row = std::min(r + i, rows - 1);  // the last row stands in for those beyond the end
                from[i] = x.at + row * x.apart;
                if (start.at) memcpy(total[i], start.at + row * start.apart + c, bytes);
            }
            for (long k = 0; k < in; k++) {
                vec left = load(W + k * stride + c), right = load(W + k * stride + c + LANES);
                for (long i = 0; i < ROWS; i++) total[i][0] += from[i][k] * left, total[i][1] += from[i][k] * right;
            }
            for (long i = 0; i < ROWS && r + i < rows; i++) memcpy(to + (r + i) * apart + c, total[i], bytes);
        }
}

struct Machine {
    long T, n, P, N, M, R, W, reach, lstm, kept;  // kept: cells and weights have all steps; otherwise one
    const float *projected, *V, *S, *bias;  // V and S are transposed for the forward pass, not for the backward pass
    float *heard, *inner, *cells, *weights, *gates, *spoken;  // as in ntm_triton.py, but cells (B, T + 1, M, N)
    const float *grad;
    float *grad_projected, *grad_spoken, *carried, *grad_inner, *grad_cells, *grad_weights;  // the last four: of the initial state
    long H() const { return R + W; }
    long D() const { return 2 * reach + 1; }
    long G() const { return lstm ? 4 * n : n; }
    long wide() const { return R * M + n; }
    long K() const { return lstm ? wide() : R * M; }
    long step() const { return kept ? N * M : 0; }
    long turn() const { return kept ? H() * N : 0; }
    long sequence() const { return kept ? T + 1 : 1; }
};

// All heads at one step of one sequence, with all intermediate values.
struct Step {
    const Machine &m;
    std::vector<float> space;
    float *keys, *adds, *units, *gate, *erase, *strength, *gamma, *shifts;  // squashed controller outputs; adds follow keys
    float *directions, *lengths;                                            // of keys
    float *cells, *inverse;                                                 // unit rows (M, N); their inverse lengths (N)
    float *cosine, *content, *ring, *moved, *logs, *most, *total, *room;    // ring has `reach` more rows at each end

    explicit Step(const Machine &m) : m(m) {
        long H = m.H(), closed = m.N + 2 * m.reach;
        struct {
            float **at;
            long size;
        } parts[] = {{&keys, (H + m.W) * m.M}, {&units, H + m.W * m.M}, {&strength, H}, {&gamma, H}, {&shifts, H * m.D()},
                     {&directions, H * m.M}, {&lengths, H}, {&cells, m.M * m.N}, {&inverse, m.N}, {&cosine, H * m.N},
                     {&content, H * m.N}, {&ring, H * closed}, {&moved, H * m.N}, {&logs, H * m.N}, {&most, H}, {&total, H},
                     {&room, 3 * wide()}};
        long size = 0;
        for (auto &part : parts) size += part.size;
        space.resize(size);
        float *next = space.data();
        for (auto &part : parts) *part.at = next, next += part.size;
        adds = keys + H * m.M, gate = units, erase = units + H;
    }

    long wide() const { return std::max(m.N + 2 * m.reach, m.M); }

    // x with each end repeated on the other side
    void close(const float *x, float *to) const {
        memcpy(to + m.reach, x, m.N * sizeof(float));
        for (long i = 0; i < m.reach; i++) {
            to[m.reach - 1 - i] = x[m.N - 1 - i % m.N];
            to[m.reach + m.N + i] = x[i % m.N];
        }
    }

    // equations 5 to 9; `before` may be `w`
    void address(const float *said, const float *memory, const float *before, float *w) {
        long H = m.H(), N = m.N, M = m.M, D = m.D(), signs = (H + m.W) * M, unit = H + m.W * M;
        const float *positive = said + signs + unit, *moves = positive + 2 * H;
        for (long i = 0; i < signs; i++) keys[i] = tangent(said[i]);
        for (long i = 0; i < unit; i++) units[i] = logistic(said[signs + i]);
        for (long h = 0; h < H; h++) {
            strength[h] = softplus(positive[h]), gamma[h] = 1.0f + softplus(positive[H + h]);
            softmax(moves + h * D, 1.0f, shifts + h * D, D, most[h], total[h]);
            float largest = 0;
            for (long i = 0; i < M; i++) largest = std::max(largest, std::fabs(keys[h * M + i]));
            largest = largest > 0.0f ? largest : 1.0f;
            for (long i = 0; i < M; i++) directions[h * M + i] = keys[h * M + i] / largest;
            float length = std::sqrt(dot(directions + h * M, directions + h * M, M));
            length = length > 0.0f ? length : 1.0f, lengths[h] = largest * length;
            for (long i = 0; i < M; i++) directions[h * M + i] /= length;
        }
        normalize(memory);
        for (long h = 0; h < H; h++) {
            float *look = cosine + h * N, *found = content + h * N, *gated = ring + h * (N + 2 * m.reach), *to = moved + h * N;
            std::fill(look, look + N, 0.0f);
            for (long i = 0; i < M; i++) add(look, directions[h * M + i], cells + i * N, N);
            softmax(look, strength[h], found, N, most[h], total[h]);
            for (long i = 0; i < N; i++) room[i] = before[h * N + i] + gate[h] * (found[i] - before[h * N + i]);
            close(room, gated);
            std::fill(to, to + N, 0.0f);
            for (long j = 0; j < D; j++) add(to, shifts[h * D + j], gated + 2 * m.reach - j, N);
            float *log = logs + h * N;
            for (long i = 0; i < N; i++) log[i] = to[i] < TINY ? TINY : to[i];
            for (long i = 0; i < N; i++) log[i] = logarithm(log[i]);
            softmax(log, gamma[h], w + h * N, N, most[h], total[h]);
        }
    }

    // memory -> unit rows; a row of zeros is divided by one
    void normalize(const float *memory) {
        long N = m.N, M = m.M;
        float *scale = room, *squares = room + N;
        std::fill(scale, scale + 2 * N, 0.0f);
        for (long i = 0; i < M; i++)
            for (long r = 0; r < N; r++) {
                float x = std::fabs(memory[i * N + r]);
                scale[r] = x <= scale[r] ? scale[r] : x;
            }
        for (long r = 0; r < N; r++) {  // divide by the largest first, so that no square underflows; avoid infinite reciprocals
            float least = scale[r] < 1e-37f ? 1e-37f : scale[r];
            scale[r] = scale[r] > 0.0f ? 1.0f / least : 1.0f;
        }
        for (long i = 0; i < M; i++)
            for (long r = 0; r < N; r++) {
                float x = memory[i * N + r] * scale[r];
                cells[i * N + r] = x;
                squares[r] += x * x;
            }
        for (long r = 0; r < N; r++) {
            squares[r] = squares[r] > 0.0f ? 1.0f / std::sqrt(squares[r]) : 1.0f;
            inverse[r] = std::min(scale[r] * squares[r], 1e38f);
        }
        for (long i = 0; i < M; i++)
            for (long r = 0; r < N; r++) cells[i * N + r] *= squares[r];
    }

    // the product of 1 - w(r) e(i) over all write heads except `but`
    void keep(const float *w, long i, long but, float *to) const {
        std::fill(to, to + m.N, 1.0f);
        for (long k = 0; k < m.W; k++)
            if (k != but)
                for (long r = 0; r < m.N; r++) to[r] *= 1.0f - w[(m.R + k) * m.N + r] * erase[k * m.M + i];
    }

    // equations 3, 4 and 2; `after` may be `memory`
    void write_and_read(const float *w, const float *memory, float *after, float *reads) {
        for (long i = 0; i < m.M; i++) {
            float *row = after + i * m.N;
            keep(w, i, -1, room);
            for (long r = 0; r < m.N; r++) row[r] = memory[i * m.N + r] * room[r];
            for (long k = 0; k < m.W; k++) add(row, adds[k * m.M + i], w + (m.R + k) * m.N, m.N);
            for (long k = 0; k < m.R; k++) reads[k * m.M + i] = dot(w + k * m.N, row, m.N);
        }
    }

    // From the gradients of memory and weights after the step to those before it; `asked` is the gradient of `said`.
    void back(const float *said, const float *memory, const float *before, const float *w, const float *after,
              const float *wanted, const float *carried, float *of_memory, float *of_weights, float *asked) {
        long H = m.H(), N = m.N, M = m.M, D = m.D(), signs = (H + m.W) * M;
        float *unit = asked + signs, *positive = unit + H + m.W * M, *moves = positive + 2 * H;
        const float *raw = said + signs + H + m.W * M;
        float *kept = room, *slopes = room + wide(), *closed = slopes + wide();
        for (long i = 0; i < M; i++) {
            float *row = of_memory + i * N;
            for (long k = 0; k < m.R; k++) {
                float slope = wanted[k * M + i] + carried[k * M + i];
                add(of_weights + k * N, slope, after + i * N, N);
                add(row, slope, w + k * N, N);
            }
            for (long k = 0; k < m.W; k++) {
                const float *place = w + (m.R + k) * N;
                float *slope = of_weights + (m.R + k) * N, a = adds[k * M + i], e = erase[k * M + i];
                asked[(H + k) * M + i] = dot(place, row, N) * (1.0f - a * a);
                keep(w, i, k, kept);
                for (long r = 0; r < N; r++) kept[r] *= row[r] * memory[i * N + r];
                unit[H + k * M + i] = -dot(kept, place, N) * e * (1.0f - e);
                for (long r = 0; r < N; r++) slope[r] += a * row[r] - e * kept[r];
            }
            keep(w, i, -1, kept);
            for (long r = 0; r < N; r++) row[r] *= kept[r];
        }
        for (long h = 0; h < H; h++) {
            const float *place = w + h * N, *found = content + h * N, *gated = ring + h * (N + 2 * m.reach);
            float *g = of_weights + h * N, mean = dot(place, g, N);
            for (long r = 0; r < N; r++) slopes[r] = place[r] * (g[r] - mean);
            positive[H + h] = dot(slopes, logs + h * N, N) * logistic(raw[H + h]);
            for (long r = 0; r < N; r++) {  // w / w̃ from logarithms: both may underflow
                float ratio = exponential((gamma[h] - 1.0f) * logs[h * N + r] - most[h]) / total[h];
                slopes[r] = moved[h * N + r] < TINY ? 0.0f : gamma[h] * ratio * (g[r] - mean);
            }
            close(slopes, closed);
            for (long j = 0; j < D; j++) kept[j] = dot(slopes, gated + 2 * m.reach - j, N);
            softmax_slopes(shifts + h * D, kept, moves + h * D, D);
            std::fill(slopes, slopes + N, 0.0f);
            for (long j = 0; j < D; j++) add(slopes, shifts[h * D + j], closed + j, N);
            for (long r = 0; r < N; r++) kept[r] = found[r] - before[h * N + r];
            unit[h] = dot(slopes, kept, N) * gate[h] * (1.0f - gate[h]);
            for (long r = 0; r < N; r++) g[r] = (1.0f - gate[h]) * slopes[r], slopes[r] *= gate[h];
            float *scores = moved + h * N;  // reuses `moved` for the gradient of the cosines
            softmax_slopes(found, slopes, scores, N);
            positive[h] = dot(scores, cosine + h * N, N) * logistic(raw[h]);
            for (long r = 0; r < N; r++) scores[r] *= strength[h];
            for (long i = 0; i < M; i++) kept[i] = dot(scores, cells + i * N, N);
            float along = dot(kept, directions + h * M, M);
            for (long i = 0; i < M; i++) {
                float key = keys[h * M + i];
                asked[h * M + i] = (kept[i] - directions[h * M + i] * along) / lengths[h] * (1.0f - key * key);
            }
        }
        std::fill(closed, closed + N, 0.0f);
        for (long h = 0; h < H; h++)
            for (long r = 0; r < N; r++) closed[r] += moved[h * N + r] * cosine[h * N + r];
        for (long i = 0; i < M; i++) {
            for (long r = 0; r < N; r++) slopes[r] = -cells[i * N + r] * closed[r];
            for (long h = 0; h < H; h++) add(slopes, directions[h * M + i], moved + h * N, N);
            for (long r = 0; r < N; r++) of_memory[i * N + r] += slopes[r] * inverse[r];
        }
    }
};

// c and h of one step
static void lstm(const float *__restrict a, const float *__restrict c, float *__restrict next, float *__restrict h, long n) {
    for (long i = 0; i < n; i++) {
        float inner = logistic(a[n + i]) * c[i] + logistic(a[i]) * tangent(a[2 * n + i]);
        next[i] = inner;
        h[i] = logistic(a[3 * n + i]) * tangent(inner);
    }
}

// from the gradients of h (in two parts) and of the next c to those of the gates and of c
static void lstm_slopes(const float *__restrict a, const float *__restrict c, const float *__restrict next,
                        const float *__restrict dh, const float *__restrict more, float *__restrict dc,
                        float *__restrict to, long n) {
    for (long i = 0; i < n; i++) {
        float in = logistic(a[i]), f = logistic(a[n + i]), g = tangent(a[2 * n + i]), o = logistic(a[3 * n + i]);
        float y = tangent(next[i]), slope = dh[i] + more[i], inner = dc[i] + slope * o * (1.0f - y * y);
        to[i] = inner * g * in * (1.0f - in);
        to[n + i] = inner * c[i] * f * (1.0f - f);
        to[2 * n + i] = inner * in * (1.0f - g * g);
        to[3 * n + i] = slope * y * o * (1.0f - o);
        dc[i] = inner * f;
    }
}

extern "C" {

long ntm_columns() { return COLUMNS; }

// All steps of sequences first to last - 1.
void ntm_forward(const Machine *machine, long first, long last) {
    const Machine &m = *machine;
    long T = m.T, n = m.n, H = m.H(), G = m.G(), wide = m.wide(), reads = m.R * m.M;
    Step step(m);
    for (long b0 = first; b0 < last; b0 += TOGETHER) {
        long rows = std::min(TOGETHER, last - b0);
        for (long t = 0; t < T; t++) {
            Rows heard{m.heard + (b0 * (T + 1) + t) * wide, (T + 1) * wide};
            float *gates = m.gates + (b0 * T + t) * G, *spoken = m.spoken + (b0 * T + t) * m.P;
            product(m.V, m.K(), G, heard, Rows{m.projected + (b0 * T + t) * G, T * G}, gates, T * G, rows);
            for (long b = b0; b < b0 + rows; b++) {
                const float *a = m.gates + (b * T + t) * G;
                float *h = m.heard + (b * (T + 1) + t + 1) * wide + reads, *c = m.inner + (b * (T + 1) + t) * n;
                if (m.lstm)
                    lstm(a, c, c + n, h, n);
                else
                    for (long i = 0; i < n; i++) h[i] = tangent(a[i]);
            }
            product(m.S, n, m.P, Rows{heard.at + wide + reads, heard.apart}, Rows{m.bias, 0}, spoken, T * m.P, rows);
            for (long b = b0; b < b0 + rows; b++) {
                float *memory = m.cells + b * m.sequence() * m.M * m.N + t * m.step();
                float *weights = m.weights + b * m.sequence() * H * m.N + t * m.turn();
                step.address(m.spoken + (b * T + t) * m.P, memory, weights, weights + m.turn());
                step.write_and_read(weights + m.turn(), memory, memory + m.step(), m.heard + (b * (T + 1) + t + 1) * wide);
            }
        }
    }
}

// The same steps from the last to the first. `carried` (B, R M + n) passes the gradients of reads and h to the step before;
// `grad_inner`, `grad_cells` and `grad_weights` do the same. All four must start as zeros.
void ntm_backward(const Machine *machine, long first, long last) {
    const Machine &m = *machine;
    long T = m.T, n = m.n, H = m.H(), G = m.G(), wide = m.wide(), reads = m.R * m.M;
    Step step(m);
    std::vector<float> room(TOGETHER * n);
    for (long b0 = first; b0 < last; b0 += TOGETHER) {
        long rows = std::min(TOGETHER, last - b0);
        for (long t = T - 1; t >= 0; t--) {
            for (long b = b0; b < b0 + rows; b++) {
                const float *said = m.spoken + (b * T + t) * m.P, *memory = m.cells + (b * (T + 1) + t) * m.M * m.N;
                float *before = m.weights + (b * (T + 1) + t) * H * m.N, *w = before + H * m.N;
                step.address(said, memory, before, w);
                if (b + 1 < b0 + rows)  // 64 bytes at a time
                    for (long i = 0; i < m.M * m.N; i += 16) __builtin_prefetch(memory + (T + 1) * m.M * m.N + i);
                step.back(said, memory, before, w, memory + m.M * m.N, m.grad + (b * T + t) * wide, m.carried + b * wide,
                          m.grad_cells + b * m.M * m.N, m.grad_weights + b * H * m.N, m.grad_spoken + (b * T + t) * m.P);
            }
            Rows asked{m.grad_spoken + (b0 * T + t) * m.P, T * m.P}, wanted{m.grad + (b0 * T + t) * wide + reads, T * wide};
            product(m.S, m.P, n, asked, wanted, room.data(), n, rows);
            for (long b = b0; b < b0 + rows; b++) {
                const float *dh = room.data() + (b - b0) * n, *a = m.gates + (b * T + t) * G, *after = m.carried + b * wide + reads;
                const float *h = m.heard + (b * (T + 1) + t + 1) * wide + reads, *c = m.inner + (b * (T + 1) + t) * n;
                float *told = m.grad_projected + (b * T + t) * G, *dc = m.grad_inner + b * n;
                if (m.lstm)
                    lstm_slopes(a, c, c + n, dh, after, dc, told, n);
                else
                    for (long i = 0; i < n; i++) told[i] = dh[i] * (1.0f - h[i] * h[i]);
            }
            product(m.V, G, m.K(), Rows{m.grad_projected + (b0 * T + t) * G, T * G}, Rows{}, m.carried + b0 * wide, wide, rows);
        }
    }
}

}  // extern "C"
