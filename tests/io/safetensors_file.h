/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors files made byte by byte: for the reader's tests, and as seeds of the fuzzers. */
#ifndef SAFETENSORS_FILE_H
#define SAFETENSORS_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length, header filled up with blanks to a multiple of `align` bytes, data. Returns its bytes. */
static inline size_t make_safetensors(unsigned char *out, const char *header, size_t align, const void *data, size_t data_bytes) {
  size_t text = strlen(header), whole = (text + align - 1) / align * align;
  for (int i = 0; i < 8; ++i) out[i] = (unsigned char)((uint64_t)whole >> (8 * i));
  memset(out + 8, ' ', whole);
  memcpy(out + 8, header, text);
  if (data_bytes) memcpy(out + 8 + whole, data, data_bytes);
  return 8 + whole + data_bytes;
}

/* Valid files, one of each kind that there is. Their data is bytes 0, 1, 2, ... */
static const struct {
  const char *header;
  size_t align, data_bytes;
} good_safetensors[] = {
    {"{\"__metadata__\":{\"format\":\"pt\"},\"emb\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 8, 48},
    {"{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 1, 16}, /* 60 bytes of header */
    {"{\"emb\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}} ", 1, 48}, /* odd: so data begins at an odd byte */
    {"{\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]},\"emb\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 8, 48},
    {"{\"__metadata__\":{\"note\":\"a\\\"b \xC3\xA9 \\ud83d\\ude00\",\"\":\"\"},\"\\u0065mb\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}}", 1,
     48},
    {"{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},\"none\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[20,20]},"
     "\"emb\":{\"data_offsets\":[0,8],\"shape\":[2,2],\"dtype\":\"F16\"},\"between\":{\"dtype\":\"F64\",\"shape\":[0,0],\"data_offsets\":[8,8]}}",
     8, 20},
    {" \n{ \"emb\" :\t{ \"shape\" : [ 3 , 4 ] , \"dtype\" : \"F32\" , \"data_offsets\" : [ 0 , 48 ] } }\r\n", 8, 48},
    {"{\"emb\":{\"dtype\":\"F64\",\"shape\":[2,3],\"data_offsets\":[0,48],\"later\":[{\"x\":1.5e3},null,true]}}", 8, 48},
    {"{\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"emb\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}", 8, 20},
    {"{\"w\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]},\"v\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[3,6]}}", 8, 6},
    {"{}", 8, 0},
};
enum { GOOD_SAFETENSORS = sizeof good_safetensors / sizeof *good_safetensors };

static inline size_t make_good_safetensors(int kind, unsigned char *out) {
  unsigned char data[256];
  for (int i = 0; i < 256; ++i) data[i] = (unsigned char)i;
  return make_safetensors(out, good_safetensors[kind].header, good_safetensors[kind].align, data, good_safetensors[kind].data_bytes);
}

/* The index of two tensors in two files. */
static inline size_t make_index(unsigned char *out, size_t room, const char *first, const char *first_file, const char *second, const char *second_file) {
  return (size_t)snprintf((char *)out, room, "{\"metadata\": {\"total_size\": 96, \"by\": \"us\"}, \"weight_map\": {\"%s\": \"%s\", \"%s\": \"%s\"}}\n", first,
                          first_file, second, second_file);
}

#endif
