package watch

import (
	"errors"
	"net/url"
	"slices"
	"strings"
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

// TestAWatchListThatDoesNotCompleteIsReplacedByAList has a proxy before the API server that ends a long answer, and a server
// that never sends the bookmark which says that all objects have arrived.
func TestAWatchListThatDoesNotCompleteIsReplacedByAList(t *testing.T) {
	const tooMany = 20 // so that the test ends
	for name, tc := range map[string]struct {
		ends bool
		// within is how soon the kind must be in sync.
		within time.Duration
	}{
		"it ends after an object":       {ends: true, within: time.Second},
		"it stays open after an object": {within: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			sc := newScript(made(vpc, "a/x", 1), made(vpc, "a/y", 1))
			sc.cutInitial = func() (cut, ends bool) {
				cut = len(sc.requests) < tooMany
				return cut, cut && tc.ends
			}
			withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
				s.commit("i", Child(vpc, "a", "x"), Child(vpc, "a", "y"))
				pass(tc.within)
				s.expectState(t, vpc, Managed(), Synced, "")
				s.expect(t, "the list", "i: KindState Vpc ")
				sc.put(made(vpc, "a/x", 0))
				synctest.Wait()
				s.expect(t, "the watch after it", "i: Updated Vpc a/x")
				if want := []string{"watch-list", "list", "watch"}; !slices.Equal(sc.requests, want) {
					t.Errorf("the requests are %v, want %v", sc.requests, want)
				}
			})
		})
	}
}

// TestAListThatIsNotAnsweredIsRepeated has a connection that is open, and on which a request gets no answer.
func TestAListThatIsNotAnsweredIsRepeated(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1))
	sc.hang = true
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		pass(15 * time.Minute)
		state := s.expectState(t, vpc, Managed(), Unavailable, Degraded)
		if !strings.Contains(state.Message, "not answered") {
			t.Errorf("the message is %q", state.Message)
		}
		sc.mu.Lock()
		sc.hang = false
		sc.mu.Unlock()
		pass(15 * time.Minute)
		s.expectState(t, vpc, Managed(), Synced, "")
	})
}

// TestAWatchThatDoesNotEndInTimeIsReplaced has a watch on which nothing arrives any more, as after the loss of the connection
// behind a proxy. The API server ends each watch at the time that the client asks for.
func TestAWatchThatDoesNotEndInTimeIsReplaced(t *testing.T) {
	sc := newScript(made(vpc, "a/x", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(vpc, "a", "x"))
		pass(time.Second)
		s.recorder.take()
		sc.silence()
		pass(15 * time.Minute)
		s.expectState(t, vpc, Managed(), Synced, "")
		sc.put(made(vpc, "a/x", 0))
		synctest.Wait()
		s.expect(t, "a change after that", "i: Updated Vpc a/x")
	})
}

// TestAnExpiredRevisionThatIsTheNewestIsAFailure has a server that answers each watch with 410, also one from the revision of a
// list that has just been made.
func TestAnExpiredRevisionThatIsTheNewestIsAFailure(t *testing.T) {
	for name, before := range map[string]bool{"before the kind was read": true, "after the kind was in sync": false} {
		t.Run(name, func(t *testing.T) {
			sc := newScript(made(vpc, "a/x", 1))
			requests := 0
			expired := func(verb string) error {
				if requests++; verb == "watch" && requests < 1000 { // so that the test ends
					return apierrors.NewResourceExpired("too old resource version")
				}
				return nil
			}
			if before {
				sc.failure = expired
			}
			withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
				s.commit("i", Child(vpc, "a", "x"))
				pass(time.Minute)
				sc.fail(expired)
				pass(5 * time.Minute)
				state := s.expectState(t, vpc, Managed(), Unavailable, Degraded)
				if !strings.Contains(state.Message, "too old resource version") {
					t.Errorf("the message is %q", state.Message)
				}
				if requests > 100 {
					t.Errorf("%d requests", requests)
				}
				sc.fail(nil)
				pass(2 * time.Minute)
				s.expectState(t, vpc, Managed(), Synced, "")
			})
		})
	}
}
