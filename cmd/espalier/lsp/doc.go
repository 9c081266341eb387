// Package lsp is the language server of espalier lsp: it speaks the Language Server Protocol 3.17 over a stream, keeps the texts that the
// editor has open beside the files of its folders, and asks internal/authoring/language.
//
// Begin with Serve.
package lsp
