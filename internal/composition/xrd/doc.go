// Package xrd knows the composition dialect: the CustomResourceDefinitions of the
// kinds that a definition defines, where their objects keep what belongs to the
// machinery, and which composition, in which revision, an object is composed by.
//
// What it makes of a definition is what the dialect's users are used to, field by
// field: their objects, and their programs that read them, need not change.
//
// Pure: it decides from values alone.
package xrd
