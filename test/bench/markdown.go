package main

import (
	"fmt"
	"strings"
)

// markdown is the report as a page.
func (r report) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Benchmarks\n\nWritten by `make bench`. `latest.json` has the same results, with all measurements.\n\n"+
		"[Scale](SCALE.md) shows how these costs grow with the numbers of instances, children and definitions. `make bench-scale` measures it.\n\n"+
		"![Creation of an instance with five children, by the number of instances](scale-creation.svg)\n\n")
	fmt.Fprintf(&out, "|%s|\n|---|---|---|---|---|---|\n", strings.Join(headings, "|"))
	for _, row := range r.Rows {
		fmt.Fprintf(&out, "|%s|\n", strings.Join(row.cells(), "|"))
	}
	out.WriteString("\n")
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "- %s\n", note)
	}
	out.WriteString("\n" + r.Machine.measuredOn(r.Fsync))
	fmt.Fprintf(&out, method, r.Workers, r.Instances, r.Rounds)
	out.WriteString(requestTable(r.Counts))
	return out.String()
}

// requestTable lists the requests as a chapter of a page.
func requestTable(counts []count) string {
	out := "\n## Requests\n\n|scenario|objects|requests|\n|---|---|---|\n"
	for _, c := range counts {
		out += fmt.Sprintf("|%s|%d|%s|\n", c.During, c.Objects, c.list())
	}
	return out
}

// measuredOn says where and how the numbers were measured.
func (m machine) measuredOn(fsync bool) string {
	return fmt.Sprintf("Measured on %d cores (%s) with %s of memory, %s, %s and Kubernetes %s. "+
		"The API server, etcd, the controllers and the benchmark ran on this machine, etcd %s.\n",
		m.Cores, m.CPU, m.Memory, m.System, m.Go, m.Kubernetes, durability(fsync))
}

func durability(fsync bool) string {
	if fsync {
		return "with fsync, as in `espalier up`"
	}
	return "without fsync (`-fsync=false`), so that the times do not depend on the disk"
}

const method = `
## Method

- Requests are the increase of the API server's metric ` + "`apiserver_request_total`" + `, less the requests that the
  benchmark sends as the user (creates, patches and deletes of instances). All verbs count, including reads, and failed
  requests count as well. Not counted are watches, requests that concern no resource (metrics, discovery, schemas), and
  resources that the API server and its own controllers use (leases, endpoints, namespaces and so on). Events are
  listed below, but are not in the table above. A scenario ends when no request has come for 0.3 s.
- The plain client writes the same objects of the same size: an instance, of a copy of the kind that no controller
  serves, with finalizer, labels and inventory from the beginning; its five ConfigMaps with labels and owner references, by
  server-side apply, level by level, with the two of a level in parallel; and one status. It deletes the instance, the
  ConfigMaps in the reverse order, and removes the finalizer. It has as many workers as the controllers (%d), reads nothing
  and waits for no event. A ratio is that of one round of %d instances; the table has the median of %d rounds. Which of the
  two begins changes with each round.
- The controllers run in the process of the benchmark, with events and Graphs, and otherwise as in ` + "`espalier run`" + `. So the
  requests and watches of the simulated user take CPU time from them. The user, the plain client and each
  tenant have a connection of their own, as they are processes of their own elsewhere.
- Times end when a watch of the benchmark receives the event, for example that the instance is ready. They begin with
  the first create, or with the response to the write or deletion.
- The event of a child is a change of an annotation that its instance does not manage. The benchmark changes one child
  after the other, while all instances are at rest. The time ends when the reconcile of the instance begins.
- A Graph has the five ConfigMaps of an instance as nodes, in the same three levels, with a text of its own. It is created,
  changed and deleted as an instance is, and has the budgets of one. All Graphs are in one namespace and have one service
  account, which the controllers impersonate. The memory of a Graph is measured as that of children, and includes its compiled
  nodes and its ConfigMaps in the cache of the account.
- A tenant is a namespace. One tenant changes its only instance again and again, first alone and then while the other changes
  all of its instances at once. [Queues and fairness](../docs/design/0006-queues-and-fairness.md) explains what is shared.
- Memory is the difference of the heap in use after garbage collection, with many instances and without any, each in
  newly started controllers, divided by the number of children in their cache. The instances themselves, their indices
  and their leases are part of it.
`
