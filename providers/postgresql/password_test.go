package postgresql

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestNextPasswordStep(t *testing.T) {
	hourly := &v1alpha1.PasswordRotation{Every: &metav1.Duration{Duration: time.Hour}}
	always := &v1alpha1.PasswordRotation{Every: &metav1.Duration{Duration: time.Millisecond}}
	byToken := &v1alpha1.PasswordRotation{Token: "two"}
	cases := map[string]struct {
		stored    storedPassword
		rotation  *v1alpha1.PasswordRotation
		server    string
		isUnknown bool
		want      passwordStep
	}{
		"the first is stored before it is set":                      {want: passwordStep{Store: storedPassword{Password: "new", At: noon}, WaitForSecret: true}},
		"a stored one is set":                                       {stored: storedPassword{Password: "a"}, want: passwordStep{Store: storedPassword{Password: "a"}, Set: true}},
		"one that is set is kept":                                   {stored: storedPassword{Password: "a", At: noon}, server: "a", rotation: hourly, want: passwordStep{Store: storedPassword{Password: "a", At: noon}}},
		"one that is too old is replaced":                           {stored: storedPassword{Password: "a", At: noon.Add(-time.Hour)}, server: "a", rotation: hourly, want: passwordStep{Store: storedPassword{Password: "a", Next: "new", At: noon}, WaitForSecret: true}},
		"a shorter interval than the shortest one is that":          {stored: storedPassword{Password: "a", At: noon.Add(-59 * time.Second)}, server: "a", rotation: always, want: passwordStep{Store: storedPassword{Password: "a", At: noon.Add(-59 * time.Second)}}},
		"after that it is replaced":                                 {stored: storedPassword{Password: "a", At: noon.Add(-time.Minute)}, server: "a", rotation: always, want: passwordStep{Store: storedPassword{Password: "a", Next: "new", At: noon}, WaitForSecret: true}},
		"a new token replaces it":                                   {stored: storedPassword{Password: "a", Token: "one"}, server: "a", rotation: byToken, want: passwordStep{Store: storedPassword{Password: "a", Next: "new", Token: "two", At: noon}, WaitForSecret: true}},
		"a token replaces it once":                                  {stored: storedPassword{Password: "a", Token: "two"}, server: "a", rotation: byToken, want: passwordStep{Store: storedPassword{Password: "a", Token: "two"}}},
		"the next is set, and the old one is stored until then":     {stored: storedPassword{Password: "a", Next: "b", Token: "two"}, server: "a", rotation: byToken, want: passwordStep{Store: storedPassword{Password: "a", Next: "b", Token: "two"}, Set: true}},
		"once the server has the next, it is the password":          {stored: storedPassword{Password: "a", Next: "b", Token: "two"}, server: "b", rotation: byToken, want: passwordStep{Store: storedPassword{Password: "b", Token: "two"}}},
		"no third one is generated before the next is the password": {stored: storedPassword{Password: "a", Next: "b", Token: "one"}, server: "a", rotation: byToken, want: passwordStep{Store: storedPassword{Password: "a", Next: "b", Token: "one"}, Set: true}},
		"nothing changes if the server's password is unknown":       {stored: storedPassword{Password: "a", Next: "b"}, isUnknown: true, want: passwordStep{Store: storedPassword{Password: "a", Next: "b"}, Unknown: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := nextPasswordStep(tc.stored, tc.rotation, noon, func() string { return "new" }, func(p string) external.Answer {
				if tc.isUnknown {
					return external.CannotTell
				}
				return passwordMatches(tc.server, p)
			})
			if got != tc.want {
				t.Errorf("got\n%+v, want\n%+v", got, tc.want)
			}
		})
	}
}

// TestAPasswordIsRotatedByTheClockOfTheProvider stores a password that was set at noon, and is to be
// rotated every hour.
func TestAPasswordIsRotatedByTheClockOfTheProvider(t *testing.T) {
	m := &v1alpha1.Role{}
	m.Name, m.Namespace, m.UID = "app", "team", "role-1"
	m.Spec.WriteConnectionSecretToRef = &resource.SecretReference{Name: "login"}
	m.Spec.ForProvider.PasswordRotation = &v1alpha1.PasswordRotation{Every: &metav1.Duration{Duration: time.Hour}}
	stored := secretData("password", "a", keyAt, noon.Format(time.RFC3339))
	stored["metadata"] = map[string]any{"ownerReferences": []any{map[string]any{"uid": "role-1", "controller": true}}}
	for age, want := range map[time.Duration]string{time.Hour - time.Second: "", time.Hour: "the password is being stored"} {
		now := func() time.Time { return noon.Add(age) }
		sess := &session{servers: &pools{options: Options{Now: now}}, objects: fakeObjects{"Secret team/login": stored}}
		obs := &observation{atProvider: map[string]any{}}
		state := &roleState{Name: "app", Attributes: map[string]bool{"LOGIN": true}}
		if err := obs.credentials(sess, m, state, func(p string) external.Answer { return passwordMatches("a", p) }); err != nil {
			t.Fatal(err)
		}
		if rotated := len(obs.connection[keyNext]) > 0; obs.waitsFor != want || rotated != (want != "") {
			t.Errorf("%s after it was set, it waits for %q, and a next password is stored: %t", age, obs.waitsFor, rotated)
		}
	}
}

// TestTheStatusShowsOnlyPasswordsThatTheServerHas: a password that cannot be stored, since the Secret belongs to another
// object, is generated again in each reconcile, and is set in none.
func TestTheStatusShowsOnlyPasswordsThatTheServerHas(t *testing.T) {
	own := []any{map[string]any{"uid": "role-1", "controller": true}}
	cases := map[string]struct {
		owners []any
		server string
		want   any
	}{
		"The server has the password of the Secret": {own, "a", noon.Format(time.RFC3339)},
		"The server has another password":           {own, "b", nil},
		"The Secret belongs to another object":      {nil, "a", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Role{}
			m.Name, m.Namespace, m.UID = "app", "team", "role-1"
			m.Spec.WriteConnectionSecretToRef = &resource.SecretReference{Name: "login"}
			stored := secretData("password", "a", keyAt, noon.Format(time.RFC3339))
			stored["metadata"] = map[string]any{"ownerReferences": tc.owners}
			sess := &session{servers: &pools{options: Options{Now: func() time.Time { return noon.Add(time.Hour) }}}, objects: fakeObjects{"Secret team/login": stored}}
			obs := &observation{atProvider: map[string]any{}}
			state := &roleState{Name: "app", Attributes: map[string]bool{"LOGIN": true}}
			if err := obs.credentials(sess, m, state, func(p string) external.Answer { return passwordMatches(tc.server, p) }); err != nil {
				t.Fatal(err)
			}
			if got := obs.atProvider["passwordSetAt"]; got != tc.want {
				t.Errorf("passwordSetAt is %v, want %v", got, tc.want)
			}
		})
	}
}

func passwordMatches(server, password string) external.Answer {
	if server == password {
		return external.Yes
	}
	return external.No
}

// TestARotationSurvivesACrashAnywhere reconciles ten times with every combination of crashes: the
// Secret is written or not, and the server is changed or not. At any time, the Secret has the
// server's password.
func TestARotationSurvivesACrashAnywhere(t *testing.T) {
	const reconciles = 10
	for crashes := range 1 << reconciles {
		secret, server, n := storedPassword{}, "", 0
		wanted := &v1alpha1.PasswordRotation{Token: "one"}
		reconcile := func(crash bool) passwordStep {
			step := nextPasswordStep(secret, wanted, noon, func() string { n++; return fmt.Sprint("p", n) }, func(p string) external.Answer { return passwordMatches(server, p) })
			if crash && crashes&1 == 0 {
				return step // before anything is written
			}
			secret = step.Store
			if step.Set && !crash {
				server = secret.latest()
			}
			return step
		}
		for i := range reconciles {
			if i == reconciles/2 {
				wanted.Token = "two"
			}
			reconcile(crashes>>i&1 == 1)
			if server != "" && server != secret.Password && server != secret.Next {
				t.Fatalf("crashes %b, reconcile %d: the server has %s, and the Secret %+v", crashes, i, server, secret)
			}
		}
		for range 4 {
			reconcile(false)
		}
		if server != secret.Password || secret.Next != "" || secret.Token != "two" {
			t.Fatalf("crashes %b: in the end the server has %s, and the Secret %+v", crashes, server, secret)
		}
	}
}

// TestARotationIsAnotherRequest: the runtime takes the same update, made again, for one that was changed back.
func TestARotationIsAnotherRequest(t *testing.T) {
	requestAt := func(at time.Time) string {
		obs := &observation{}
		obs.password(passwordStep{Store: storedPassword{Password: "a", Next: "b", At: at}, Set: true}, "app", "the Secret login")
		return string(obs.update.encode())
	}
	first, again, next := requestAt(noon), requestAt(noon), requestAt(noon.Add(time.Hour))
	if first != again || first == next {
		t.Errorf("the requests are %s, %s when it is repeated, and %s an hour later", first, again, next)
	}
}
