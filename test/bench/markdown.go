package main

import (
	"fmt"
	"strings"
)

// markdown is the report as a page.
func (r report) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# What it costs\n\nWritten by `make bench`; the plain data are in `latest.json`.\n\n")
	fmt.Fprintf(&out, "|%s|\n|---|---|---|---|---|---|\n", strings.Join(headings, "|"))
	for _, row := range r.Rows {
		fmt.Fprintf(&out, "|%s|\n", strings.Join(row.cells(), "|"))
	}
	out.WriteString("\n")
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "- %s\n", note)
	}
	m := r.Machine
	fmt.Fprintf(&out, "\nMeasured on %d cores (%s), %s of memory, %s, with %s and Kubernetes %s. ", m.Cores, m.CPU, m.Memory, m.System, m.Go, m.Kubernetes)
	fmt.Fprintf(&out, "The API server, etcd, the engine and the benchmark share this machine. etcd ran %s.\n", durability(r.Fsync))
	fmt.Fprintf(&out, method, r.Workers, r.Instances, r.Rounds)
	out.WriteString("\n## What was counted\n\n|during|objects|requests|\n|---|---|---|\n")
	for _, c := range r.Counts {
		fmt.Fprintf(&out, "|%s|%d|%s|\n", c.During, c.Objects, c.list())
	}
	return out.String()
}

func durability(fsync bool) string {
	if fsync {
		return "with fsync, as in `espalier up`"
	}
	return "without fsync, so that the disk doesn't blur the times; `-fsync` turns it on, as in `espalier up`"
}

const method = `
## How it is measured

- Requests are the difference of the API server's own ` + "`apiserver_request_total`" + ` before and after, less what the
  benchmark itself sent as the user (creates, patches and deletes of instances). All verbs count, also reads and
  failures. Not counted are watches, the requests that are about no resource (metrics, discovery, schemas), and the
  resources that the API server uses for itself (leases, endpoints, namespaces and the like). Events are listed
  below, but are not part of the numbers above. After each scenario requests are counted until none has come for
  0.3 s.
- "Raw" is a plain client that writes the same objects of the same size: an instance, of a copy of the kind that
  nobody serves, and its five ConfigMaps by server-side apply, level by level, with the two of a level side by side.
  It has as many workers as the engine (%d), writes no finalizer and no status, and reads nothing. The other raw
  writer also writes, in two more requests, what the engine writes to the instance: labels, inventory and status. A
  ratio is of one round of %d instances; the median of %d rounds counts. All take turns in being first.
- The engine runs inside the benchmark's process, with real events, and is otherwise what ` + "`espalier run`" + ` runs. What
  the benchmark itself does as the user and as an onlooker goes at the engine's expense.
- Times to ready, and from the bottom to the top, end when the event arrives on a watch of the benchmark's. They
  begin with the first create, or with the answer to the write or deletion.
- An event is a change of a child in something that its instance doesn't care for, made by the benchmark, one after
  the other, with all instances at rest. It has reached its instance when the engine's pass over it begins.
- Memory is the heap in use after garbage collection, with many instances less without any, each in freshly started
  controllers, over the number of children in their cache. The instances themselves, their indices and their leases
  are part of it.
`
