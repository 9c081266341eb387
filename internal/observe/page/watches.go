package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Watch is a watch of the running program.
type Watch struct {
	Group       string    `json:"group"`
	Version     string    `json:"version"`
	Kind        string    `json:"kind"`
	Selection   string    `json:"selection"`
	As          string    `json:"as,omitempty"`
	State       string    `json:"state"`
	Reason      string    `json:"reason,omitempty"`
	Message     string    `json:"message,omitempty"`
	Since       time.Time `json:"since"`
	Subscribers int       `json:"subscribers"`
	Objects     int       `json:"objects"`
	Events      uint64    `json:"events"`
	Unavailable bool      `json:"unavailable,omitempty"`
}

// Queue is the queue of a kind in the running program.
type Queue struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Depth   int    `json:"depth"`
	Active  int    `json:"active"`
	Retries int    `json:"retries"`
}

type watchesHead struct {
	Problem     string `json:"problem,omitempty"`
	Watches     int    `json:"watches"`
	Unavailable int    `json:"unavailable"`
	Objects     int    `json:"objects"`
	Omitted     int    `json:"omitted,omitempty"`
	// Queues are those with something to do; Idle counts the others.
	Queues []Queue `json:"queues"`
	Idle   int     `json:"idle"`
}

// maxWatches bounds the watches and the queues that are shown.
const maxWatches = 500

// Watches lists watches, those first that do not work, and the queues that have work, those first with failures. Problem is why there are none.
func Watches(watches []Watch, queues []Queue, problem string) Document {
	watches, all := slices.Clone(watches), len(queues)
	queues = slices.DeleteFunc(slices.Clone(queues), func(q Queue) bool { return q == Queue{Group: q.Group, Kind: q.Kind} })
	slices.SortStableFunc(watches, func(a, b Watch) int {
		return cmp.Or(boolRank(b.Unavailable)-boolRank(a.Unavailable), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Selection, b.Selection), cmp.Compare(a.As, b.As))
	})
	slices.SortStableFunc(queues, func(a, b Queue) int {
		return cmp.Or(b.Retries-a.Retries, b.Depth+b.Active-a.Depth-a.Active, cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group))
	})
	head := watchesHead{Problem: problem, Watches: len(watches), Idle: all - len(queues), Queues: append([]Queue{}, queues[:min(len(queues), maxWatches)]...)}
	items, used := []Item{}, map[string]int{}
	for _, w := range watches {
		if w.Unavailable {
			head.Unavailable++
		}
		head.Objects += w.Objects
		if len(items) == maxWatches {
			head.Omitted++
			continue
		}
		key := fmt.Sprintf("%s.%s/%s %s %s", w.Kind, w.Group, w.Version, w.Selection, w.As)
		if used[key]++; used[key] > 1 {
			key += fmt.Sprintf(" %d", used[key])
		}
		items = append(items, Item{key, w})
	}
	return Document{Head: head, Items: items}
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}
