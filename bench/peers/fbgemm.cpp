// SPDX-License-Identifier: BSD-3-Clause
// What gather.py and optim.py call: the embedding kernels that fbgemm-gpu-cpu generates at run time (fbgemm.so), a memcpy loop and a
// read probe, each on OpenMP's threads. Declarations follow FBGEMM's FbgemmEmbedding.h, release 1.9.0.
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <omp.h>
#include <utility>

namespace fbgemm {
struct float16;
template <typename In, typename Index, typename Offset = int32_t, typename Out = float>
class EmbeddingSpMDMKernelSignature {
 public:
  using Type = std::function<bool(int64_t bags, int64_t ids, int64_t rows, const In*, const Index*, const Offset*, const float* weights, Out*)>;
};
template <typename In, typename Index, typename Offset = int32_t, typename Out = float, bool thread_local_cache = false>
typename EmbeddingSpMDMKernelSignature<In, Index, Offset, Out>::Type GenerateEmbeddingSpMDM(int64_t dim, bool weighted, bool mean, int prefetch = 16,
                                                                                           bool weights_by_position = false, bool use_offsets = true,
                                                                                           bool bf16_out = false, bool bf16_in = false);
template <typename Index, typename Offset = int32_t, typename Out = float>
typename EmbeddingSpMDMKernelSignature<uint8_t, Index, Offset, Out>::Type GenerateEmbeddingSpMDMNBit(int bits, int64_t dim, bool weighted, bool mean,
                                                                                                    int prefetch = 16, bool weights_by_position = false,
                                                                                                    bool use_offsets = true);
template <typename Index>
class SparseAdaGradSignature {
 public:
  using Type = std::function<int(int rows, uint64_t numbers, float* w, const float* g, float* h, const Index*, float epsilon, float lr, float weight_decay,
                                 const double* counter, int64_t counter_halflife)>;
};
template <typename Index>
typename SparseAdaGradSignature<Index>::Type GenerateSparseAdaGrad(int dim, bool rowwise = false, int prefetch = 16, bool weight_decay = false);
// The 1.9.0 wheel reads torch 2.14's table of CPU features by another layout, believes that there is no AVX2 and runs
// its reference loops, ten times slower. Defined here they come first in the search for names.
bool fbgemmHasAvx2Support() { return __builtin_cpu_supports("avx2"); }
bool fbgemmHasAvx512Support() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }
bool fbgemmHasAvx512VnniSupport() { return __builtin_cpu_supports("avx512vnni"); }
bool fbgemmHasAvx512Bf16Support() { return __builtin_cpu_supports("avx512bf16"); }
}  // namespace fbgemm

namespace {
template <typename In>
using Kernel = typename fbgemm::EmbeddingSpMDMKernelSignature<In, int32_t, int32_t, float>::Type;

template <typename In>
bool run(const Kernel<In>& kernel, const void* table, int64_t rows, int64_t dim, const int32_t* ids, const int32_t* offsets, int64_t bag, int64_t bags,
         float* out, int threads) {
  bool fine = true;
#pragma omp parallel num_threads(threads) reduction(&& : fine)
  {
    int64_t first = bags * omp_get_thread_num() / threads, end = bags * (omp_get_thread_num() + 1) / threads;
    fine = kernel(end - first, (end - first) * bag, rows, static_cast<const In*>(table), ids + first * bag, offsets, nullptr, out + first * dim);
  }
  return fine;
}

template <typename In>
const Kernel<In>& float_kernel(int64_t dim) {
  static std::map<int64_t, Kernel<In>> made;
  if (!made.count(dim)) made[dim] = fbgemm::GenerateEmbeddingSpMDM<In, int32_t, int32_t, float, false>(dim, false, false);
  return made[dim];
}
const Kernel<uint8_t>& nibble_kernel(int64_t dim) {
  static std::map<int64_t, Kernel<uint8_t>> made;
  if (!made.count(dim)) made[dim] = fbgemm::GenerateEmbeddingSpMDMNBit<int32_t, int32_t, float>(4, dim, false, false);
  return made[dim];
}
}  // namespace

// Sums of bags of `bag` ids each, offsets 0, bag, 2 bag ..; bits: 32, 16 (half floats), 8 or 4 of a stored value.
extern "C" int peer_bags(int bits, const void* table, int64_t rows, int64_t dim, const int32_t* ids, const int32_t* offsets, int64_t bag, int64_t bags,
                         float* out, int threads) {
  switch (bits) {
    case 32: return run<float>(float_kernel<float>(dim), table, rows, dim, ids, offsets, bag, bags, out, threads);
    case 16: return run<fbgemm::float16>(float_kernel<fbgemm::float16>(dim), table, rows, dim, ids, offsets, bag, bags, out, threads);
    case 8: return run<uint8_t>(float_kernel<uint8_t>(dim), table, rows, dim, ids, offsets, bag, bags, out, threads);
    default: return run<uint8_t>(nibble_kernel(dim), table, rows, dim, ids, offsets, bag, bags, out, threads);
  }
}

// A step of row-wise Adagrad on rows that ids [n] name once each, in slices of a thread; g [n, dim], h a number for each of all rows.
extern "C" int peer_adagrad(float* w, float* h, int64_t rows, int64_t dim, const int32_t* ids, const float* g, int64_t n, float lr, float epsilon, int threads) {
  static std::map<int64_t, fbgemm::SparseAdaGradSignature<int32_t>::Type> made;
  if (!made.count(dim)) made[dim] = fbgemm::GenerateSparseAdaGrad<int32_t>(static_cast<int>(dim), true);
  const auto& kernel = made[dim];
  bool fine = true;
#pragma omp parallel num_threads(threads) reduction(&& : fine)
  {
    const int64_t first = n * omp_get_thread_num() / threads, count = n * (omp_get_thread_num() + 1) / threads - first;
    fine = kernel(static_cast<int>(count), static_cast<uint64_t>(rows * dim), w, g + first * dim, h, ids + first, epsilon, -lr, 0, nullptr, 0) == count;
  }
  return fine;
}

extern "C" void peer_copy(const char* table, int64_t row_bytes, const int32_t* ids, int64_t n, char* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * row_bytes, table + ids[i] * row_bytes, static_cast<size_t>(row_bytes));
}

// Four far streams per thread.
extern "C" uint64_t peer_read(const char* memory, int64_t bytes, int threads) {
  uint64_t total = 0;
#pragma omp parallel num_threads(threads) reduction(^ : total)
  {
    const int64_t part = bytes / threads / 4 / 64 * 64;
    const char* from = memory + bytes / threads * omp_get_thread_num();
    uint64_t lanes[8] = {0};
    for (int64_t at = 0; at < part; at += 64)
      for (int stream = 0; stream < 4; ++stream)
        for (int i = 0; i < 8; ++i) {
          uint64_t word;
          std::memcpy(&word, from + stream * part + at + 8 * i, 8);
          lanes[i] ^= word;
        }
    for (uint64_t lane : lanes) total ^= lane;
  }
  return total;
}
