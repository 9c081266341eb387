// Package registry fetches packages from registries of images, and pushes them. What is fetched is stored in a cache by digest, and checked
// against it whenever it is read.
// See docs/packages.md.
//
// Begin with Client.Fetch and Cache.
package registry

import "time"

// Limits of requests.
const (
	// maxAttempts bounds how often a request is sent that a registry cannot answer now.
	maxAttempts = 5
	// maxConnects bounds how often it is sent if there is no answer: a wrong name or address is found out soon.
	maxConnects = 3
	// maxBackoff bounds the time between two attempts, unless the registry asks for more.
	maxBackoff = 10 * time.Second
	// maxRetryAfter bounds the pause that a registry can ask for.
	maxRetryAfter = time.Hour
	// maxPerRegistry bounds the requests to a registry at the same time.
	maxPerRegistry = 8
	// headerLimit is how long a registry may take to begin its answer.
	headerLimit = 30 * time.Second
	// connectLimit is how long a connection may take.
	connectLimit = 15 * time.Second
	// maxTags bounds the tags that a repository may have.
	maxTags = 100_000
	// maxConfig bounds the configuration of an image, in bytes.
	maxConfig = 4 << 20
	// maxSigned bounds the signatures and the attestations of an image, and maxSignedText each of them, in bytes.
	maxSigned, maxSignedText = 64, 8 << 20
)
