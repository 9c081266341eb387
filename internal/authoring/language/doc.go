// Package language answers the questions of editors about the files of a workspace while they are written: what is wrong, what may
// stand at a place, what the name there means, and where it is defined. It answers with the compilers of the controllers.
// See docs/design/0016-the-controllers-without-effect.md.
//
// Begin with Check; its result completes, explains and finds names in texts that may be newer than what was checked.
//
// It does no I/O.
package language
