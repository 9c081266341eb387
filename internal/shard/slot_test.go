package shard_test

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/espalier-dev/espalier/internal/shard"
)

// TestASetIsReadAgain encodes a set of slots as it is published to the other replicas.
func TestASetIsReadAgain(t *testing.T) {
	var set, read shard.Set
	set[0], set[len(set)-1] = 1, 1<<63
	text, err := set.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.UnmarshalText(text); err != nil || read != set {
		t.Errorf("%v is read as %v: %v", set, read, err)
	}
	if got := slices.Collect(read.All()); !slices.Equal(got, []shard.Slot{0, shard.Slots - 1}) {
		t.Errorf("it has the slots %v", got)
	}
	for slot := range read.All() {
		if slot != 0 {
			t.Errorf("the iteration goes on to %d", slot)
		}
		break
	}
}

func TestAMalformedSetIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":   "",
		"no base64": "-",
		"too short": base64.StdEncoding.EncodeToString(make([]byte, shard.Slots/8-1)),
		"too long":  base64.StdEncoding.EncodeToString(make([]byte, shard.Slots/8+1)),
	} {
		var set shard.Set
		if err := set.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
