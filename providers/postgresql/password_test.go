package postgresql

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestTheTurnsOfAPassword(t *testing.T) {
	hour := &v1alpha1.PasswordRotation{Every: &metav1.Duration{Duration: time.Hour}}
	asked := &v1alpha1.PasswordRotation{Token: "two"}
	cases := map[string]struct {
		kept     kept
		rotation *v1alpha1.PasswordRotation
		server   string
		blind    bool
		want     turn
	}{
		"the first is stored before anything is set":     {want: turn{Keep: kept{Password: "new", At: noon}, Waits: true}},
		"what is stored is set":                          {kept: kept{Password: "a"}, want: turn{Keep: kept{Password: "a"}, Set: true}},
		"what is set stays":                              {kept: kept{Password: "a", At: noon}, server: "a", rotation: hour, want: turn{Keep: kept{Password: "a", At: noon}}},
		"one that is an hour old has a next":             {kept: kept{Password: "a", At: noon.Add(-time.Hour)}, server: "a", rotation: hour, want: turn{Keep: kept{Password: "a", Next: "new", At: noon}, Waits: true}},
		"so has one that somebody asks to rotate":        {kept: kept{Password: "a", Token: "one"}, server: "a", rotation: asked, want: turn{Keep: kept{Password: "a", Next: "new", Token: "two", At: noon}, Waits: true}},
		"a request is followed once":                     {kept: kept{Password: "a", Token: "two"}, server: "a", rotation: asked, want: turn{Keep: kept{Password: "a", Token: "two"}}},
		"the next is set, and the old opens until then":  {kept: kept{Password: "a", Next: "b", Token: "two"}, server: "a", rotation: asked, want: turn{Keep: kept{Password: "a", Next: "b", Token: "two"}, Set: true}},
		"once the server has it, it is the password":     {kept: kept{Password: "a", Next: "b", Token: "two"}, server: "b", rotation: asked, want: turn{Keep: kept{Password: "b", Token: "two"}}},
		"no other comes before the next is the password": {kept: kept{Password: "a", Next: "b", Token: "one"}, server: "a", rotation: asked, want: turn{Keep: kept{Password: "a", Next: "b", Token: "one"}, Set: true}},
		"what can't be told changes nothing":             {kept: kept{Password: "a", Next: "b"}, blind: true, want: turn{Keep: kept{Password: "a", Next: "b"}, Unknown: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := nextTurn(tc.kept, tc.rotation, noon, func() string { return "new" }, func(p string) external.Answer {
				if tc.blind {
					return external.CannotTell
				}
				return has(tc.server, p)
			})
			if got != tc.want {
				t.Errorf("it is\n%+v, and was to be\n%+v", got, tc.want)
			}
		})
	}
}

func has(server, password string) external.Answer {
	if server == password {
		return external.Yes
	}
	return external.No
}

// TestARotationSurvivesACrashAnywhere plays all orders in which a Secret is written,
// or not, and a server is asked, or not, for ten passes: at each moment the server's
// password is in the Secret, and what others read as the password is one that it was
// asked to take.
func TestARotationSurvivesACrashAnywhere(t *testing.T) {
	const passes = 10
	for fate := range 1 << passes {
		secret, server, n := kept{}, "", 0
		wanted := &v1alpha1.PasswordRotation{Token: "one"}
		pass := func(crash bool) turn {
			turn := nextTurn(secret, wanted, noon, func() string { n++; return fmt.Sprint("p", n) }, func(p string) external.Answer { return has(server, p) })
			if crash && fate&1 == 0 {
				return turn // before anything is written
			}
			secret = turn.Keep
			if turn.Set && !crash {
				server = secret.latest()
			}
			return turn
		}
		for i := range passes {
			if i == passes/2 {
				wanted.Token = "two"
			}
			pass(fate>>i&1 == 1)
			if server != "" && server != secret.Password && server != secret.Next {
				t.Fatalf("fate %b, pass %d: the server has %s, and the Secret %+v", fate, i, server, secret)
			}
		}
		for range 4 {
			pass(false)
		}
		if server != secret.Password || secret.Next != "" || secret.Token != "two" {
			t.Fatalf("fate %b: in the end the server has %s, and the Secret %+v", fate, server, secret)
		}
	}
}
