// Package catalog contains the public schemas of all resource types that the Cloud Control API can create, read and
// delete. They are embedded in the program as types.zip, and each is read when it is asked for: types that are not used
// cost nothing but the size of the program.
//
// types.zip and types.tsv are taken from the package cfn-lint on PyPI, by the program in generate. See LICENSE for the
// terms of the schemas.
package catalog

//go:generate go run ./generate -version 1.58.0 -sha256 9d9f06043160756a6158f5c3f92a44ce38254b1c578127461608305bc8262987
