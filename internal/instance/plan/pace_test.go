package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Each item is a letter: r for one that is ready, u for one that is up to date and not ready, c for a drift that is
// corrected, o for a ready one that is to change, b for one that is to change and not ready, f for one that is to change and
// was never applied, n for one that is to be created, m for one that gets another place, p for one that does and is not ready,
// w for one that waits, s for one that is left out. What is held back becomes an h.
func TestPacesHoldItemsBack(t *testing.T) {
	applied := &unstructured.Unstructured{}
	applied.SetAnnotations(map[string]string{v1alpha1.AppliedAnnotation: "digest"})
	for _, test := range []struct {
		paces         []Pace
		items, expect string
	}{
		{[]Pace{{Batch: 1}}, "oooo", "ohhh"},
		{[]Pace{{Batch: 1}}, "uooo", "uhhh"},
		{[]Pace{{Batch: 1}}, "rooo", "rohh"},
		{[]Pace{{Batch: 1}}, "cooo", "cohh"},
		{[]Pace{{Batch: 2}}, "oooo", "oohh"},
		{[]Pace{{Batch: 2}}, "rooo", "rohh"},
		{[]Pace{{Batch: 2}}, "uroo", "urhh"},
		{[]Pace{{Batch: 2}}, "rroo", "rroo"},
		{[]Pace{{Batch: 9}}, "oooo", "oooo"},
		{[]Pace{{}}, "oooooooo", "ohhhhhhh"},
		{[]Pace{{}}, "rooooooo", "rohhhhhh"},
		{[]Pace{{}}, "rroooooo", "rroohhhh"},
		{[]Pace{{}}, "rrroooooo", "rrrohhhhh"},
		{[]Pace{{}}, "rrrroooooo", "rrrroooohh"},
		{[]Pace{{}, {Batch: 3}}, "rrrroooooo", "rrrroohhhh"},
		{[]Pace{{Batch: 1}}, "nnnn", "nhhh"},         // creations are changes
		{[]Pace{{Batch: 1}}, "wooo", "whhh"},         // the next ones don't overtake
		{[]Pace{{Batch: 1}}, "urrr", "urrr"},         // nothing is to change
		{[]Pace{{Batch: 1}}, "ucrr", "ucrr"},         // what drifts is corrected at once
		{[]Pace{{Batch: 1}}, "srso", "srso"},         // what is left out doesn't count
		{[]Pace{{Batch: 2}}, "oorrrrrr", "oorrrrrr"}, // those at the end don't make the batch larger
		{[]Pace{{Batch: 2}}, "rooorrrroo", "rohhrrrrhh"},
		{[]Pace{{Batch: 1}}, "mmoo", "mmoh"}, // a new place is no change, and an item that gets one counts as before
		{[]Pace{{Batch: 1}}, "pmoo", "pmhh"},
		{[]Pace{{Default: true}}, "rooooo", "rohhhh"},
		{[]Pace{{Default: true}}, "orrooo", "orrhhh"},
		{[]Pace{{Default: true}}, "ubobnf", "ubhbnf"}, // only the changes of what is ready and was applied before are held
		{[]Pace{{Default: true}}, "umom", "umhm"},
		{[]Pace{{Batch: 1}}, "", ""},
		{nil, "oooo", "oooo"},
	} {
		steps, nodes := make([]Step, len(test.items)), make([]Node, len(test.items))
		kinds := map[rune]Step{
			'r': {Action: Keep, Ready: true}, 'u': {Action: Keep}, 'c': {Action: Correct, Ready: true}, 'o': {Action: Update, Ready: true, Current: applied},
			'n': {Action: Create}, 'w': {Action: Defer}, 's': {Action: Skip}, 'b': {Action: Update, Current: applied},
			'f': {Action: Update, Ready: true, Current: &unstructured.Unstructured{}},
			'm': {Action: Update, Ready: true, Moves: true, Current: applied}, 'p': {Action: Update, Moves: true, Current: applied},
		}
		for i, item := range test.items {
			steps[i], nodes[i] = kinds[item], Node{Collection: "zones", Paces: test.paces}
		}
		held := holdToPace(steps, nodes)
		var got strings.Builder
		for i, item := range test.items {
			if item != 'w' && steps[i].Action == Defer {
				item = 'h'
			}
			got.WriteRune(item)
		}
		if got.String() != test.expect || held != strings.Contains(test.expect, "h") {
			t.Errorf("%v of %s: got %s, held %v, expected %s", test.paces, test.items, &got, held, test.expect)
		}
	}
}

func TestPacesOfCollectionsAreTheirOwn(t *testing.T) {
	nodes := []Node{
		{ID: "a[0]", Collection: "a", Paces: []Pace{{Batch: 1}}}, {ID: "b[0]", Collection: "b", Paces: []Pace{{Batch: 1}}},
		{ID: "a[1]", Collection: "a", Paces: []Pace{{Batch: 1}}}, {ID: "b[1]", Collection: "b", Paces: []Pace{{Batch: 1}}}, {ID: "c"},
	}
	steps := []Step{{Action: Keep, Ready: true}, {Action: Update}, {Action: Update}, {Action: Update}, {Action: Update}}
	if !holdToPace(steps, nodes) {
		t.Error("nothing is held back")
	}
	for i, action := range []Action{Keep, Update, Update, Defer, Update} {
		if steps[i].Action != action {
			t.Errorf("%s: got %s, expected %s", nodes[i].ID, steps[i].Action, action)
		}
	}
}

func TestTheNarrowestPaceIsNamed(t *testing.T) {
	steps, nodes := make([]Step, 5), make([]Node, 5)
	for i := range steps {
		steps[i], nodes[i] = Step{Node: "a", Action: Update}, Node{Collection: "a", Paces: []Pace{{Batch: 4}, {Batch: 2}}}
	}
	holdToPace(steps, nodes)
	for _, s := range steps[2:] {
		if s.Action != Defer || !strings.Contains(s.Problem.Message, "lets 2 of 5 items change") {
			t.Errorf("%s: %s", s.Action, s.Problem.Message)
		}
	}
}
