package xpkg

// Limits of a package.
const (
	// MaxStream bounds the YAML stream of a package, in bytes.
	MaxStream = 200 << 20
	// maxDocument bounds one object of it, in bytes, with its aliases replaced.
	maxDocument = 16 << 20
	// maxDocuments bounds how many objects it has, and maxValues their values together.
	maxDocuments = 20_000
	maxValues    = 5_000_000
	// maxNesting bounds how deep the values of an object are nested.
	maxNesting = 256
	// maxProblems bounds the problems that are reported.
	maxProblems = 100
	// maxRange bounds a range of versions, in characters.
	maxRange = 1024
	// maxUnpacked bounds what is decompressed of an image to find its stream, in bytes.
	maxUnpacked = 4 << 30
	// maxWhiteouts bounds how many files a layer of it removes.
	maxWhiteouts = 100_000
)
