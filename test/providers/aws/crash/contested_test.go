package crash

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAContestedFieldIsNotFoughtOver has a tag that EC2 shows changed back after each update. After two updates the
// resource says so and is only read, until the spec changes.
func TestAContestedFieldIsNotFoughtOver(t *testing.T) {
	p := newPlane(t)
	counter := testkit.NewCrash(0)
	stop := p.start(t, counter.Wrap(p.config))
	defer func() { stop() }()
	ns := testkit.Namespace(t, p.config)
	gateway := members[3]
	kind := kindOf(t, gateway.typ)
	p.Apply(t, gateway.manifest(t, ns))
	id := identifier(p.Await(t, kind, ns, gateway.name, isSynced(1)))
	p.annotate(t, gateway.typ, ns, gateway.name, resource.PollIntervalAnnotation, "1s")
	for n := range 3 { // the third change stays
		if n > 0 {
			testkit.Poll(t, fmt.Sprintf("update %d sets the tag", n), func() bool { return teamOf(t, gateway.typ, id) == "one" })
		}
		native(t, "CreateTags", map[string]string{"ResourceId.1": id, "Tag.1.Key": "team", "Tag.1.Value": "somebody's"})
	}
	isContested := suite.All(suite.HasCondition(resource.Synced, "False", resource.Contested, "2 updates", "Tags", "when the spec changes"), suite.HasCondition(resource.Ready, "True", ""))
	p.Await(t, kind, ns, gateway.name, isContested)
	cloud.ResetCalls()
	writes := counter.Writes()
	testkit.Poll(t, "it is read again", func() bool {
		return cloud.Count("DescribeInternetGateways", "")+cloud.Count(awscloud.GetResource, "") >= 3
	})
	if n := changes(); n > 0 {
		t.Errorf("%d calls change something", n)
	}
	if n := counter.Writes() - writes; n > 0 {
		t.Errorf("%d writes to the API server", n)
	}
	if team := teamOf(t, gateway.typ, id); team != "somebody's" {
		t.Errorf("the tag is %q", team)
	}
	p.Await(t, kind, ns, gateway.name, isContested)
	p.Patch(t, kind, ns, gateway.name, `{"spec":{"forProvider":{"Tags":[{"Key":"team","Value":"two"}]}}}`)
	p.Await(t, kind, ns, gateway.name, isSynced(2))
	if team := teamOf(t, gateway.typ, id); team != "two" {
		t.Errorf("after a change of the spec the tag is %q", team)
	}
	p.deleteAll(t, ns, gateway)
}

// teamOf is a resource's tag "team", as native APIs show it.
func teamOf(t *testing.T, typ, id string) string {
	t.Helper()
	found, err := cloud.Describe(t.Context(), typ, id)
	if err != nil || found == nil {
		t.Fatalf("describe %s: %v, %v", id, found, err)
	}
	return found.Tags()["team"]
}
