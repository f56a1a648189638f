# SPDX-License-Identifier: BSD-3-Clause
# The library: one set of objects, linked as libembed.so, libembed.a and into the tests that look inside.
set(EMBED_SOURCES
  src/core/call.c src/core/cpu.c src/core/dtype.c src/core/error.c src/core/memory.c src/core/options.c src/core/pages.c src/core/philox.c
  src/core/scratch.c src/core/sort.c
  src/thread/pool.c src/thread/run.c
  src/kernels/levels.c
  src/context/context.c
  src/codec/codec.c src/codec/f32.c src/codec/f64.c src/codec/half.c src/codec/f8.c src/codec/i4_group.c src/codec/i8_row.c src/codec/nbit_row.c src/codec/u8_row.c
  src/codec/q8_0.c src/codec/q4_0.c src/codec/q4_1.c src/codec/q5_0.c src/codec/q5_1.c
  src/codec/q2_k.c src/codec/q3_k.c src/codec/q4_k.c src/codec/q5_k.c src/codec/q6_k.c src/codec/k_blocks.c src/codec/scale_search.c
  src/codec/iq4_nl.c src/codec/iq4_xs.c src/codec/mxfp4.c src/codec/nvfp4.c src/codec/pq.c src/codec/sixteen.c
  src/sweep/blas_chunk.c src/sweep/forms.c src/sweep/gemm_blas.c src/sweep/logsumexp.c src/sweep/mix.c src/sweep/own_chunk.c src/sweep/plan.c
  src/sweep/prepared.c src/sweep/product.c src/sweep/sweep.c src/sweep/topk.c
  src/head/answers.c src/head/answers_edits.c src/head/answers_row.c src/head/answers_take.c src/head/answers_target.c src/head/head.c
  src/head/logits.c src/head/logits_at.c src/head/result.c src/head/rules.c src/head/sample.c src/head/sampler.c src/head/sampler_all.c
  src/head/sampler_list.c src/head/saved.c src/head/sketch.c src/head/sketch_rows.c src/head/sketch_search.c src/head/subset.c
  src/head/sweep_call.c src/head/topk.c src/head/verify.c
  src/geometry/analogy.c src/geometry/distance.c src/geometry/nearest.c src/geometry/norms.c src/geometry/search.c
  src/gather/bag.c src/gather/lookup.c src/gather/norm_rows.c src/gather/plan.c src/gather/positions.c src/gather/rows.c
  src/loss/candidates.c src/loss/chunks.c src/loss/cross_entropy.c src/loss/distill.c src/loss/divergence.c src/loss/filter.c src/loss/forward.c
  src/loss/hierarchical.c src/loss/huffman.c src/loss/huffman_predict.c src/loss/loss.c src/loss/pairs.c src/loss/pass.c src/loss/sampled.c
  src/loss/sampled_shared.c src/loss/sequences.c src/loss/words.c
  src/optim/adafactor.c src/optim/adagrad.c src/optim/adagrad_row.c src/optim/adam_lazy.c src/optim/adam_row.c src/optim/adam_sparse.c src/optim/adamw.c
  src/optim/adamw_deferred.c src/optim/freeze.c src/optim/ftrl.c src/optim/history.c src/optim/lamb.c src/optim/lion.c src/optim/optim.c
  src/optim/rates.c src/optim/rmsprop.c src/optim/row.c src/optim/saved.c src/optim/sgd.c src/optim/step.c src/optim/touch.c
  src/gather/side.c
  src/scatter/bag_backward.c src/scatter/count.c src/scatter/grad.c src/scatter/group.c src/scatter/lookup_backward.c src/scatter/measure.c
  src/scatter/merge.c src/scatter/scatter.c src/scatter/share.c
  src/table/buffer.c src/table/ids.c src/table/init.c src/table/overlay.c src/table/pq.c src/table/rows.c src/table/table.c src/table/update.c
  src/vocab/siphash.c src/vocab/stored.c src/vocab/tokens.c
  src/io/file.c src/io/folder.c src/io/format.c src/io/gguf.c src/io/map.c src/io/metadata.c src/io/npy.c src/io/json.c src/io/safetensors.c src/io/shard_index.c src/io/tensor.c src/io/text.c src/io/word2vec.c
  src/io/floats.c src/io/vectors_text.c src/io/word2vec_header.c
  src/io/decoded.c src/io/scaled.c src/io/packed.c src/io/bitsandbytes.c src/io/hints.c src/io/fasttext.c src/io/finalfusion.c src/io/glove_binary.c src/io/llama2c.c src/io/model2vec.c src/io/raw.c
  src/io/tokenizer.c src/io/inflate.c src/io/npz.c src/io/pickle.c src/io/torch.c src/io/torch_old.c src/io/zip.c
  src/io/byte_order.c src/io/container.c src/io/crc32c.c src/io/safe_file.c src/io/write_embed.c src/io/write_npy.c src/io/write_rows.c
  src/io/write_finalfusion.c src/io/write_float.c src/io/write_gguf.c src/io/write_npz.c src/io/write_safetensors.c
  src/io/write_word2vec.c src/io/write_word2vec_text.c src/io/writer.c
  src/roles/config.c src/roles/conventions.c src/roles/head.c src/roles/names.c src/roles/notes.c src/roles/open.c src/roles/roles.c
  src/roles/tie.c
)
foreach(level IN LISTS EMBED_LEVELS)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/kernels/${level}/*.c)
  if(NOT files)
    continue() # the level only inherits so far
  endif()
  list(APPEND EMBED_SOURCES ${files})
  # -Og for gcc's -O0, whose AVX-512 macros trip -Wconversion in our files.
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${EMBED_LEVEL_FLAGS_${level}};$<IF:$<CONFIG:Debug>,-Og,${EMBED_FAST}>")
  # Compilers make vectors of quotients and roots only where neither errno nor a trap must be kept.
  set_property(SOURCE src/kernels/${level}/opt.c src/kernels/${level}/softmax.c APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno -fno-trapping-math)
endforeach()

# Block decoders and bounds of logits are plain loops: -O3 makes vectors of them.
set(codecs ${EMBED_SOURCES})
list(FILTER codecs INCLUDE REGEX "^src/codec/|^src/table/pq|^src/head/sketch")
set_source_files_properties(${codecs} PROPERTIES COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:${EMBED_FAST}>")

add_library(embed_objects OBJECT ${EMBED_SOURCES})
target_include_directories(embed_objects PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> PRIVATE src)
target_link_libraries(embed_objects PRIVATE embed_flags)

find_package(Threads REQUIRED)
set(EMBED_PRIVATE_LIBRARIES Threads::Threads m)
if(EMBED_BLAS)
  pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas>=0.3.10)
  target_compile_definitions(embed_objects PRIVATE EMBED__BLAS=1)
  target_link_libraries(embed_objects PRIVATE PkgConfig::OPENBLAS)
  list(APPEND EMBED_PRIVATE_LIBRARIES PkgConfig::OPENBLAS)
else()
  target_compile_definitions(embed_objects PRIVATE EMBED__BLAS=0)
endif()
# Compressed members of npz files, where zlib is at hand; a packager says -DEMBED_ZLIB=ON or OFF.
pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
if(ZLIB_FOUND)
  set(zlib ON)
else()
  set(zlib OFF)
endif()
option(EMBED_ZLIB "Read compressed members of npz files (needs zlib)" ${zlib})
if(EMBED_ZLIB)
  pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
  target_compile_definitions(embed_objects PRIVATE EMBED__ZLIB=1)
  target_link_libraries(embed_objects PRIVATE PkgConfig::ZLIB)
  list(APPEND EMBED_PRIVATE_LIBRARIES PkgConfig::ZLIB)
else()
  target_compile_definitions(embed_objects PRIVATE EMBED__ZLIB=0)
endif()

add_library(embed SHARED $<TARGET_OBJECTS:embed_objects>)
add_library(embed_static STATIC $<TARGET_OBJECTS:embed_objects>)
add_library(embed::embed ALIAS embed)
set_target_properties(embed PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/libembed.map)
set_target_properties(embed_static PROPERTIES OUTPUT_NAME embed)
foreach(target embed embed_static)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
target_link_libraries(embed PRIVATE ${EMBED_PRIVATE_LIBRARIES})
target_link_libraries(embed_static INTERFACE $<BUILD_INTERFACE:${EMBED_PRIVATE_LIBRARIES}>)
target_link_options(embed PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libembed.map -Wl,--as-needed
  -Wl,-Bsymbolic-functions -Wl,-z,nodelete)
if(NOT EMBED_SANITIZE)
  # A name in the map that nobody defines fails here; clang's sanitizers put their run-time into programs alone.
  target_link_options(embed PRIVATE -Wl,--no-undefined-version -Wl,-z,defs)
endif()
