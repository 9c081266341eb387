package composite

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTheIndexFindsWhatASearchFinds draws from two letters, so that values have the same first bytes, and are parts of each other.
func TestTheIndexFindsWhatASearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := secretValues{values: rapid.SliceOfN(rapid.StringMatching(`[ab]{6,12}`), 1, 5).Draw(t, "values")}
		text := rapid.StringMatching(`[ab]{0,40}`).Draw(t, "text")
		want := slices.ContainsFunc(v.values, func(value string) bool { return strings.Contains(text, value) })
		if got := newSecretIndex(v).isIn(text); got != want {
			t.Errorf("got %t, want %t", got, want)
		}
	})
}
