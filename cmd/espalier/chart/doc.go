// Package chart renders the Helm chart that installs Espalier, and generates those of its files that
// the program determines: the permissions of the controllers and the admission policies.
package chart

//go:generate go run ./generate
