package definition

import (
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
)

func TestWhichServiceAccountADefinitionNames(t *testing.T) {
	in := func(namespace string) inventory.Definition {
		return inventory.Definition{Name: "d", Namespace: namespace}
	}
	cases := map[string]struct {
		owner   inventory.Definition
		named   *v1alpha1.ServiceAccount
		want    v1alpha1.ServiceAccount
		problem string
	}{
		"None":                                   {in(""), nil, v1alpha1.ServiceAccount{}, ""},
		"One of any namespace":                   {in(""), &v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, ""},
		"One of nowhere":                         {in(""), &v1alpha1.ServiceAccount{Name: "x"}, v1alpha1.ServiceAccount{}, "in which namespace"},
		"One without a name":                     {in(""), &v1alpha1.ServiceAccount{Namespace: "a"}, v1alpha1.ServiceAccount{}, "names no service account"},
		"In a namespace, one of that":            {in("a"), &v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, ""},
		"In a namespace, it goes without saying": {in("a"), &v1alpha1.ServiceAccount{Name: "x"}, v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, ""},
		"In a namespace, none of another":        {in("a"), &v1alpha1.ServiceAccount{Namespace: "b", Name: "x"}, v1alpha1.ServiceAccount{}, "of that namespace only"},
	}
	for name, tc := range cases {
		got, problem := accountOf(tc.owner, &v1alpha1.DefinitionSpec{ServiceAccount: tc.named})
		if got != tc.want || (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: %+v, %q", name, got, problem)
		}
	}
}

func TestRightsAreAskedForLaterAndLater(t *testing.T) {
	var l lacking
	now := time.Unix(0, 0)
	ask := func(after time.Duration, still bool, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := l.next(still, now); got != want {
			t.Errorf("after %s: %s, not %s", after, got, want)
		}
	}
	ask(0, true, time.Second)
	ask(time.Second, true, 2*time.Second)
	ask(2*time.Second, true, 4*time.Second)
	ask(time.Second, true, time.Second) // somebody was told of something new
	for range 20 {
		now = l.due
		l.next(true, now)
	}
	now = l.due
	ask(0, true, slowestAsk)
	ask(0, false, 0)
	ask(time.Hour, true, time.Second)
}
