package page

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// eventItem is an event about an object.
type eventItem struct {
	Type    string     `json:"type"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	From    string     `json:"from,omitempty"`
	Count   int64      `json:"count,omitempty"`
	Last    *time.Time `json:"last,omitempty"`
}

// maxEvents bounds the events that are shown.
const maxEvents = 50

// Events lists events of core/v1, the latest first.
func Events(all []*unstructured.Unstructured) Document {
	items := make([]Item, 0, len(all))
	for _, o := range all {
		text := func(path ...string) string { s, _, _ := unstructured.NestedString(o.Object, path...); return s }
		e := eventItem{Type: text("type"), Reason: text("reason"), Message: text("message"), From: cmp.Or(text("source", "component"), text("reportingComponent"))}
		e.Count, _, _ = unstructured.NestedInt64(o.Object, "count")
		for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}, {"metadata", "creationTimestamp"}} {
			if at, err := time.Parse(time.RFC3339Nano, text(path...)); err == nil {
				e.Last = &at
				break
			}
		}
		if n, found, _ := unstructured.NestedInt64(o.Object, "series", "count"); found {
			e.Count = n
		}
		items = append(items, Item{object.KeyOf(o).String(), e})
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(timeAt(b.Value.(eventItem).Last).Compare(timeAt(a.Value.(eventItem).Last)), cmp.Compare(a.Key, b.Key))
	})
	return Document{Head: map[string]int{"omitted": max(len(items)-maxEvents, 0)}, Items: items[:min(len(items), maxEvents)]}
}
