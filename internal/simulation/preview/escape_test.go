package preview

import "testing"

func TestValuesAreShownAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	if got, want := string(encode("${a < 1 && b > 2}")), `"${a < 1 && b > 2}"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
