// Package xpkg knows the format of packages: a YAML stream with one metadata object, in a layer of an image. It parses and checks streams,
// builds images of them and finds the stream in an image. Packages of Crossplane and those built here are alike.
// See docs/packages.md.
//
// Begin with Parse, Build and Stream.
//
// Pure: it decides from what it reads.
package xpkg
