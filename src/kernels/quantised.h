/* SPDX-License-Identifier: BSD-3-Clause */
/* Panels and products of quantised rows (panel.h has the contract). Products are integer: weights of a block of 32 columns
 * as unsigned bytes u, hidden rows as int8 digits with a scale for every 32 columns.
 *
 * Panel: I8's [16] floats, one for each row; then chunks of 16 blocks (the last may be shorter): the scales of a chunk,
 * zeros up to a multiple of 64 bytes, then for every block
 *   bytes (I8, Q8_0, Q5_K, Q6_K)   [8][16][4]: byte c of lane r of line g is u of row r, column 4 g + c
 *   nibbles (I4, Q4_0, Q4_K)       [4][16][4]: low nibble as line g of the bytes, high nibble as line g + 4
 * Scales of a chunk of B blocks:
 *   I4           [ceil(32 B / group)][16] halves
 *   Q4_0, Q8_0   [B][16] halves
 *   Q4_K, Q5_K   [B / 8][4][16] words of 4 bytes: the 16 bytes that begin a row's block, word w of it in line w
 *   Q6_K         [B / 8][4][16] words: a row's 16 steps of the block, four to a word; then [B / 8][16] halves
 * u = q + 128 for I8 and Q8_0, else the bits as stored; value = scale * (u - zero), of Q4_K and Q5_K step * u - offset.
 * Lanes past count have scales of 0 and row 0's payload; columns past dim the payload of I8's q = 0, I4's as stored.
 * Q4_K and Q5_K are multiplied as step * (u - center) - rest, center the whole number next to offset / step: apart, step * u and the offset
 * could be any multiple of the weight, and so what their roundings leave. |step (u - center)| + |rest| <= 3 |w|.
 *
 * Exact: a hidden row is a sum of up to 6 rows of digits ("limbs"), in each chunk of 512 columns with a power of two for
 * every limb. Four limbs hold 31 bits below the chunk's largest number: all of a float that is not below 2^-7 of it.
 * Last limbs that are zero throughout are left out, down to two (three are enough for most rows of bfloats); six are taken where what four
 * leave over of a column is more than 2^-24 of the geometric mean of |x|, and below 256 columns where they leave over anything.
 * ROUNDED_Q8_0: one row of digits, scale and rounding of every 32 columns as the codec of Q8_0 has them, for the K forms
 * too.
 *
 * Order of one sum, at every level the same bits: chunks ascend, limbs from the largest inside each block (of I8 inside each chunk); isum is the
 * exact sum of (u - zero) * digit, of Q4_K and Q5_K of (u - center) * digit; + and * that stand in one parenthesis are an FMA.
 *   center    ratio = dmin / d, 0 where that is negative or NaN; center = ((ratio * m) * (1 / sc) + 3 * 2^22) - 3 * 2^22, the whole number next to
 *             it, at most the largest u, which it is where it would be NaN; rest = dmin * m - (center * step). A product with m or sc is
 *             ((2^23 + m) * a) - 2^23 a: NaN where a is infinite
 *   exact     I8       sum = ((float(isum of the chunk) * limb's scale) * row's scale) + sum
 *             others   whole = float(isum) of the first limb, then of each other one (float(isum) * its unit) + whole, the unit a power of two
 *                      below 1; chain = (whole * scale) + chain from 0 over the blocks, of Q6_K over their halves, then with an offset
 *                      chain = chain - (rest * sum of the digits in these units); sum = (chain * first limb's scale) + sum
 *   rounded   I8       chain = (float(isum) * digits' scale) + chain; sum = (chain * row's scale) + sum
 *             others   chain = ((float(isum) * digits' scale) * scale) + chain, then with an offset
 *                      chain = chain - (rest * (digits' scale * sum of digits)); sum = sum + chain */
#ifndef EMBED__QUANTISED_H
#define EMBED__QUANTISED_H

#include "kernels/panel.h"

void embed__quantised_scalar(embed__panel_kernels *k);
void embed__quantised_avx2(embed__panel_kernels *k);
void embed__quantised_avx512vnni(embed__panel_kernels *k);
void embed__quantised_amx(embed__panel_kernels *k);

/* amx has these for few hidden rows. */
extern const embed__multiplier embed__prepared_avx512vnni[EMBED__PANEL_FORMS][EMBED__ACTIVATIONS],
    embed__in_place_avx512vnni[EMBED__PANEL_FORMS][EMBED__ACTIVATIONS];

#endif
