// SPDX-License-Identifier: BSD-3-Clause
//! The C functions of libembed as they are. `libembed` is the crate to use.
#![allow(non_camel_case_types, non_upper_case_globals, clippy::all)]
mod bindings;
pub use bindings::*;

#[cfg(test)]
mod tests {
    use super::*;

    /// The loaded library writes into a struct exactly what this crate's layout says.
    #[test]
    fn the_library_and_this_crate_agree_on_layouts() {
        unsafe {
            let mut ctx = std::ptr::null_mut();
            assert_eq!(embed_context_create(&embed_context_options::default(), &mut ctx), EMBED_OK);
            let mut table = std::ptr::null_mut();
            let options = embed_table_options { dtype: EMBED_BF16, vocab: 5, row_bytes: 64, ..Default::default() };
            assert_eq!(embed_table_create(ctx, 7, 3, &options, &mut table), EMBED_OK);
            assert_eq!(embed_table_vocab(table), 5);
            assert_eq!(embed_table_row_bytes(table), 64);
            assert_eq!(embed_table_dtype(table), EMBED_BF16);
            let mut head = std::ptr::null_mut();
            let options = embed_head_options { logit_softcap: 30.0, logit_scale: 2.0, ..Default::default() };
            assert_eq!(embed_head_create(ctx, table, std::ptr::null(), &options, &mut head), EMBED_OK);
            let mut info = embed_head_info::default();
            assert_eq!(embed_head_describe(ctx, head, &mut info), EMBED_OK);
            assert_eq!((info.vocab, info.dim, info.logit_scale, info.logit_softcap), (5, 3, 2.0, 30.0));
            embed_head_release(head);
            embed_table_release(table);
            embed_context_release(ctx);
        }
    }
}
