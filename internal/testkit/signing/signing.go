// Package signing has signing keys for tests.
package signing

import (
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Created is when the Secret of Keys was created.
var Created = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

// Keys returns the keys of an installation with the ids, of which the first one signs; by default
// there is one key. The same id is the same key.
func Keys(ids ...string) inventory.Keys {
	if len(ids) == 0 {
		ids = []string{"k1"}
	}
	byID := map[string][]byte{}
	for _, id := range ids {
		byID[id] = []byte(strings.Repeat(id, inventory.KeySize))
	}
	keys, err := inventory.NewKeys(ids[0], byID, Created)
	if err != nil {
		panic(err)
	}
	return keys
}
