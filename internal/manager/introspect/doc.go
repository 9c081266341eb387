// Package introspect lets a person ask a running program what it watches.
//
// The program that runs the controllers answers on a Unix domain socket that
// only its own user can reach; `espalier watches` asks there. Both find the same
// socket without being told, because its name follows from the cluster's
// address: one program works for a cluster, and whoever has the kubeconfig and
// is the same user on the same machine, or in the same container, finds it.
//
// Nothing depends on this: where a socket can't be opened, the program works all
// the same and says so in its log.
package introspect
