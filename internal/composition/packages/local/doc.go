// Package local runs the packages of functions on this machine, without a container engine. It unpacks the image of a
// package into a directory, and runs its entrypoint as a child process that serves TLS on loopback.
// See docs/design/0013-composites-and-functions.md.
//
// Functions runs packages. Store keeps unpacked images, and package launch decides how an image is run.
package local
