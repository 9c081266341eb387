// Package chart renders the Helm chart that installs Espalier, and generates those of its files that
// the program determines: the permissions of the controllers, the admission policies, and the README.
package chart

//go:generate go run ./generate
