package cloudcontrol

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestConditionalChangesOfAPatch(t *testing.T) {
	for name, tc := range map[string]struct {
		typ, patch string
		want       []string
	}{
		"a property":               {"AWS::EC2::VPC", `[{"op": "replace", "path": "/InstanceTenancy", "value": "default"}]`, []string{"InstanceTenancy"}},
		"another property":         {"AWS::EC2::VPC", `[{"op": "replace", "path": "/EnableDnsSupport", "value": true}]`, nil},
		"one beside another":       {"AWS::RDS::DBInstance", `[{"op": "add", "path": "/Engine", "value": "mysql"}, {"op": "add", "path": "/AllocatedStorage", "value": "20"}]`, []string{"Engine"}},
		"a type that has none":     {"AWS::IAM::Role", `[{"op": "add", "path": "/Description", "value": "x"}]`, nil},
		"what is not a patch":      {"AWS::EC2::VPC", `{}`, nil},
		"the removal of its value": {"AWS::EC2::VPC", `[{"op": "remove", "path": "/InstanceTenancy"}]`, []string{"InstanceTenancy"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conditionalChanges(newClient(t, tc.typ).Type, tc.patch); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRefusedChangesSayWhatToDo(t *testing.T) {
	const advice = "Set it back in spec.forProvider, or delete this object and create another one. AWS says: no"
	for name, tc := range map[string]struct {
		code, message string
		conditional   []string
		want          string
	}{
		"AWS names the reason":            {"NotUpdatable", "no", []string{"InstanceTenancy"}, "this change needs a new resource: AWS changes InstanceTenancy of an existing one only in some cases, and this is none of them. " + advice},
		"no property is conditional":      {"NotUpdatable", "no", nil, "this change needs a new resource. " + advice},
		"the error of a call":             {"NotUpdatableException", "no", nil, "this change needs a new resource. " + advice},
		"the handler's code is in a text": {"GeneralServiceException", "no (HandlerErrorCode: NotUpdatable)", nil, "this change needs a new resource. " + advice},
		"the text has the reason":         {"InvalidRequest", "no, Engine cannot be modified after creation", []string{"Engine"}, "AWS changes Engine of an existing one"},
		"another reason":                  {"InvalidRequest", "no", []string{"Engine"}, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, "AWS::EC2::VPC")
			c.conditional = tc.conditional
			got := c.explained(external.Update, tc.code, tc.message)
			if !strings.Contains(got, tc.want) || tc.want == "no" && got != "no" {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestConditionalChangesOutliveARestart polls an update with what Begin has returned.
func TestConditionalChangesOutliveARestart(t *testing.T) {
	c := newClient(t, "AWS::EC2::VPC")
	c.conditional = []string{"InstanceTenancy", "Other"}
	op := c.toOp(resume{verb: external.Update, since: c.options.Now(), step: "1.30/1.32: half"}, types.ProgressEvent{RequestToken: aws.String("a/b:c"), OperationStatus: types.OperationStatusInProgress})
	got, err := parseResume(op.Resume)
	if err != nil || got.verb != external.Update || got.token != "a/b:c" || !slices.Equal(got.conditional, c.conditional) || got.step != "1.30/1.32: half" {
		t.Errorf("got %+v, %v", got, err)
	}
}
