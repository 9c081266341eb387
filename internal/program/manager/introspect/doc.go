// Package introspect serves the watches, the queues and the profile of a running program on a local socket.
//
// The program that runs the controllers listens on a Unix domain socket that only its own user
// can reach, and `espalier watches` and `espalier top` connect to it. All of them derive the path
// of the socket from the address of the cluster. So the same user on the same machine, or in the
// same container, finds the program with the kubeconfig of its cluster.
//
// Nothing depends on this: if the socket cannot be opened, the program logs that and runs
// without it.
package introspect
