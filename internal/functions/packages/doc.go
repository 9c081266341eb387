// Package packages knows the functions of a cluster: which there are, where each is
// served, and how to call it. It watches Functions and their revisions, so that a call
// costs no other request, and tells what has changed so that those who use a function
// are run again.
//
// It runs no packages. Where nobody does, it says on a Function what becomes of it; where
// a package manager does, it leaves that alone.
package packages
