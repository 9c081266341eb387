package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// untagged is a type whose resources AWS names and which cannot be tagged: nothing but the token shows
// the outcome of a creation.
const untagged = "AWS::CloudFront::OriginAccessControl"

const untaggedProperties = `{OriginAccessControlConfig: {Name: $NS, OriginAccessControlOriginType: s3, SigningBehavior: always, SigningProtocol: sigv4}}`

func (p *plane) annotate(t *testing.T, typ, ns, name, key, value string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	p.Patch(t, kindOf(t, typ), ns, name, string(body))
}

// isUnresolved checks that an object asks a person, and says how to answer.
func isUnresolved(o *unstructured.Unstructured) error {
	return suite.HasCondition(resource.Synced, "False", resource.CreateUnresolved, resource.ExternalNameAnnotation, resource.RetryAnnotation)(o)
}

// crashAt returns controllers that crash when the n-th call of an operation since now has been made, before they
// record its answer.
func crashAt(operation string, n int) *testkit.Crash {
	before := cloud.Count(operation, "")
	return testkit.NewCrashBefore(func(int, *http.Request) bool { return cloud.Count(operation, "")-before >= n })
}

// TestAPersonDecidesAboutAnUnknownCreation loses the answer of a creation whose token is not recognized
// afterwards, of a type that shows no outcome. Both answers of a person are followed.
func TestAPersonDecidesAboutAnUnknownCreation(t *testing.T) {
	p := newPlane(t)
	stop := p.start(t, p.config)
	defer func() { stop() }()
	m := member{typ: untagged, name: "control", create: untaggedProperties}
	for name, tc := range map[string]struct {
		fault  awscloud.Fault
		exists bool
	}{
		"it exists, and gets its name": {awscloud.Fault{LoseAnswer: true}, true},
		"it is created again":          {awscloud.Fault{LoseRequest: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.SetRepeat(awscloud.RepeatConflicts)
			ns := testkit.Namespace(t, p.config)
			fault := tc.fault
			fault.Type, fault.Operation = untagged, awscloud.CreateResource
			cloud.Inject(fault)
			if !tc.exists { // each repetition is refused as if the token were known
				cloud.Inject(awscloud.Fault{Type: untagged, Operation: awscloud.CreateResource, Times: -1,
					Error: &awscloud.Error{Code: "ClientTokenConflictException", Message: "the token was used"}})
			}
			p.Apply(t, m.manifest(t, ns))
			p.Await(t, kindOf(t, untagged), ns, m.name, isUnresolved)
			stop()
			stop = p.start(t, p.config)
			p.annotate(t, untagged, ns, m.name, "crossplane.io/reconcile-requested-at", "now")
			p.Await(t, kindOf(t, untagged), ns, m.name, suite.All(suite.HasField("now", "status", "lastHandledReconcileAt"), isUnresolved))
			cloud.ClearFaults()
			all := controls(t)
			if tc.exists {
				if len(all) != 1 {
					t.Fatalf("controls: %v", all)
				}
				p.annotate(t, untagged, ns, m.name, resource.ExternalNameAnnotation, all[0])
			} else {
				if len(all) != 0 {
					t.Fatalf("controls: %v", all)
				}
				p.annotate(t, untagged, ns, m.name, resource.RetryAnnotation, "I have looked")
			}
			o := p.Await(t, kindOf(t, untagged), ns, m.name, isSynced(1))
			if now := controls(t); len(now) != 1 || now[0] != identifier(o) {
				t.Errorf("the object has %s, and there are %v", identifier(o), now)
			}
			p.Delete(t, kindOf(t, untagged), ns, m.name)
			p.AwaitGone(t, kindOf(t, untagged), ns, m.name)
			if left := controls(t); len(left) > 0 {
				t.Errorf("after the deletion: %v", left)
			}
		})
	}
}

// controls returns the identifiers of all origin access controls, as CloudFront lists them.
func controls(t *testing.T) []string {
	t.Helper()
	out, err := cloud.NativeNames(t.Context(), "cloudfront", "/2020-05-31/origin-access-control", "Id")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTokensAreForgotten has creations whose answers are lost, and continues when AWS has forgotten their tokens: what
// was created is found by its name or tag, or a person is asked.
func TestTokensAreForgotten(t *testing.T) {
	p := newPlane(t)
	ns := testkit.Namespace(t, p.config)
	all := []member{members[0], members[3], members[4], members[5], members[8], members[9], {typ: untagged, name: "control", create: untaggedProperties}}
	for _, m := range all {
		cloud.Inject(awscloud.Fault{Type: m.typ, Operation: awscloud.CreateResource, LoseAnswer: true, Times: -1})
	}
	cloud.ResetCalls()
	stop := p.start(t, p.config)
	defer func() { stop() }()
	for _, m := range all {
		p.Apply(t, m.manifest(t, ns))
	}
	for _, m := range all {
		awaitCall(t, awscloud.CreateResource, m.typ)
	}
	stop()
	cloud.ClearFaults()
	creations := cloud.Count(awscloud.CreateResource, "")
	cloud.Advance(37 * time.Hour)
	stop = p.start(t, p.config)
	for _, m := range all[:len(all)-1] {
		o := p.Await(t, kindOf(t, m.typ), ns, m.name, isSynced(1))
		if found := owned(t, m.typ, ns, m.name); len(found) != 1 || found[0].Identifier != identifier(o) {
			t.Errorf("%s: the object has %s, and there are %v", m.typ, identifier(o), found)
		}
	}
	p.Await(t, kindOf(t, untagged), ns, "control", isUnresolved)
	if n := cloud.Count(awscloud.CreateResource, ""); n != creations {
		t.Errorf("%d more creations", n-creations)
	}
	if now := controls(t); len(now) != 1 {
		t.Fatalf("controls: %v", now)
	}
	p.annotate(t, untagged, ns, "control", resource.ExternalNameAnnotation, controls(t)[0])
	p.Await(t, kindOf(t, untagged), ns, "control", isSynced(1))
	p.deleteAll(t, ns, all...)
}

func (p *plane) deleteAll(t *testing.T, ns string, all ...member) {
	t.Helper()
	for _, m := range all {
		p.Delete(t, kindOf(t, m.typ), ns, m.name)
	}
	for _, m := range all {
		p.AwaitGone(t, kindOf(t, m.typ), ns, m.name)
	}
}

// awaitCall waits until an operation of a type is called; the cloud cannot be watched.
func awaitCall(t *testing.T, operation, typ string) {
	t.Helper()
	testkit.Poll(t, fmt.Sprintf("%s of a %s is called", operation, typ), func() bool { return cloud.Count(operation, typ) > 0 })
}

// TestADistributionSurvivesKills has a distribution that takes long to create, without late initialization, and
// kills the provider when the call has been made, in the middle of the creation, and when it is ready.
func TestADistributionSurvivesKills(t *testing.T) {
	p := newPlane(t)
	site := members[8]
	kind := kindOf(t, site.typ)
	ns := testkit.Namespace(t, p.config)
	cloud.SetDuration(site.typ, awscloud.CreateResource, 20*time.Minute)
	t.Cleanup(func() { cloud.SetDuration(site.typ, awscloud.CreateResource, 0) })
	cloud.ResetCalls()
	crash := crashAt(awscloud.CreateResource, 1)
	stop := p.start(t, crash.Wrap(p.config))
	defer func() { stop() }()
	p.Apply(t, site.manifest(t, ns))
	<-crash.Crashed()
	stop()
	stop = p.start(t, p.config)
	p.Await(t, kind, ns, site.name, suite.HasCondition(resource.Synced, "Unknown", resource.OperationInProgress))
	stop()
	cloud.Advance(10 * time.Minute)
	stop = p.start(t, p.config)
	p.Await(t, kind, ns, site.name, suite.HasCondition(resource.Synced, "Unknown", resource.OperationInProgress))
	stop()
	cloud.Advance(11 * time.Minute)
	stop = p.start(t, p.config)
	id := identifier(p.Await(t, kind, ns, site.name, isSynced(1)))
	if id == "" {
		t.Error("the distribution has no external name")
	}
	stop()
	stop = p.start(t, p.config)
	p.annotate(t, site.typ, ns, site.name, "crossplane.io/reconcile-requested-at", "now")
	o := p.Await(t, kind, ns, site.name, suite.All(suite.HasField("now", "status", "lastHandledReconcileAt"), isSynced(1)))
	if found := owned(t, site.typ, ns, site.name); identifier(o) != id || len(found) != 1 || found[0].Identifier != id {
		t.Errorf("the distribution was %s, is %s, and there are %v", id, identifier(o), found)
	}
	p.deleteAll(t, ns, site)
}
