package watch

import (
	"errors"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

func TestAShortOutageDoesNotChangeTheState(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1), made(vpc, "a/y", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"), Child(vpc, "a", "y"))
		synctest.Wait()
		s.recorder.take()
		broken := func(string) error { return apierrors.NewInternalError(errors.New("conversion webhook failed")) }
		sc.fail(broken)
		sc.write(made(vpc, "a/x", 0)) // missed
		pass(3 * time.Second)
		s.expectState(t, vpc, Managed(), Synced, "")
		sc.fail(nil)
		pass(10 * time.Second)
		s.expect(t, "only what was missed", "i: Updated Vpc a/x")

		sc.fail(broken)
		pass(time.Minute)
		s.expectState(t, vpc, Managed(), Unavailable, Degraded)
		s.expect(t, "an outage that lasts", "i: KindState Vpc ")
		if _, ok := s.Get(vpc, "a", "x"); !ok {
			t.Error("objects are forgotten because the watch failed")
		}
	})
}

// TestABrokenWatchIsLoggedByVerbosity breaks a watch in the middle of an event, as the end of a connection does
// to the watches of all kinds. It is resumed, so that only a verbose log has lines about it.
func TestABrokenWatchIsLoggedByVerbosity(t *testing.T) {
	for verbosity, want := range []bool{false, true} {
		sc := newScript(made(vpc, "a/x", 1))
		withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
			var lines []string
			s.env.Logger = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: verbosity})
			s.commit("i", Child(vpc, "a", "x"))
			pass(time.Minute)
			lines = nil
			sc.deliver(apiwatch.Error, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": int64(500), "message": "unable to decode an event from the watch stream",
			}})
			pass(time.Minute)
			s.expectState(t, vpc, Managed(), Synced, "")
			if got := len(lines) > 0; got != want {
				t.Errorf("with verbosity %d: logged %q", verbosity, lines)
			}
		})
	}
}

// TestARefusedConnectionIsResumed restarts the API server: the watch continues from its revision,
// without a list, and doesn't delay a stop.
func TestARefusedConnectionIsResumed(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		pass(time.Minute)
		refused := func(string) error { return &url.Error{Op: "Get", Err: syscall.ECONNREFUSED} }
		sc.fail(refused)
		pass(time.Minute)
		s.expectState(t, vpc, Managed(), Unavailable, Degraded)
		sc.fail(nil)
		pass(6 * time.Second)
		s.expectState(t, vpc, Managed(), Synced, "")
		if sc.lists != 1 {
			t.Errorf("listed %d times, want once", sc.lists)
		}
		sc.put(made(vpc, "a/x", 0))
		synctest.Wait()
		if got := s.recorder.take(); got[len(got)-1] != "i: Updated Vpc a/x" {
			t.Errorf("after the restart the subscriber got %v", got)
		}
		sc.fail(refused)
		s.commit("i", Child(configMap, "a", "x"))
		pass(30 * time.Second)
		s.expectState(t, vpc, Managed(), Unwatched, "") // and the bubble ends: nothing lingers
	})
}

func TestAnExpiredRevisionDoesNotChangeTheState(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		pass(time.Minute)
		s.recorder.take()
		expired := true
		sc.fail(func(verb string) error {
			if expired && verb == "watch" {
				expired = false
				return apierrors.NewResourceExpired("too old")
			}
			return nil
		})
		sc.write(made(vpc, "a/x", 0))
		pass(2 * time.Second)
		s.expectState(t, vpc, Managed(), Synced, "")
		s.expect(t, "what was missed", "i: Updated Vpc a/x")
	})
}
