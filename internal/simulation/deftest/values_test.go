package deftest

import "testing"

func TestValuesAreShownAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	if got, want := encode("a < b && c"), `"a < b && c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
