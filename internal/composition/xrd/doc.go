// Package xrd implements the API of Crossplane's CompositeResourceDefinitions: the
// CustomResourceDefinitions of the kinds that a definition defines, the layout of their
// objects, and the selection of an object's composition and revision.
//
// The CustomResourceDefinitions have the same fields as Crossplane's: users' objects and
// programs work unchanged.
//
// Pure: it decides from values alone.
package xrd
