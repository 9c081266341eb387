package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Update is what has changed in a document. The first one has everything.
type Update struct {
	Head json.RawMessage `json:"head,omitempty"`
	// Order has the keys of all items, if they or their order have changed.
	Order []string `json:"order,omitzero"`
	// Items has the items that are new or different.
	Items map[string]json.RawMessage `json:"items,omitempty"`
}

// Sender computes the updates for one viewer. The zero value is ready to use.
type Sender struct {
	begun bool
	head  []byte
	order []string
	items map[string][]byte
}

// Next returns what has changed since the last document; changed is false if nothing has.
func (s *Sender) Next(d Document) (u Update, changed bool, err error) {
	head, err := json.Marshal(d.Head)
	if err != nil {
		return Update{}, false, fmt.Errorf("write the head: %w", err)
	}
	order, items := make([]string, 0, len(d.Items)), make(map[string][]byte, len(d.Items))
	for _, item := range d.Items {
		raw, err := json.Marshal(item.Value)
		if err != nil {
			return Update{}, false, fmt.Errorf("write %s: %w", item.Key, err)
		}
		order, items[item.Key] = append(order, item.Key), raw
		if !bytes.Equal(raw, s.items[item.Key]) {
			if u.Items == nil {
				u.Items = map[string]json.RawMessage{}
			}
			u.Items[item.Key] = raw
		}
	}
	if !bytes.Equal(head, s.head) {
		u.Head = head
	}
	if !s.begun || !slices.Equal(order, s.order) {
		u.Order = order
	}
	changed = u.Head != nil || u.Order != nil || u.Items != nil
	s.begun, s.head, s.order, s.items = true, head, order, items
	return u, changed, nil
}
