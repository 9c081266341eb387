package cloudcontrol_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	tagging "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	taggingtypes "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// endless is a cloud whose list does not end, and whose calls take time.
type endless struct {
	cloudcontrol.API
	calls                int
	inPage               int
	latency              time.Duration
	properties, resource string
}

func (e *endless) ListResources(context.Context, *sdk.ListResourcesInput, ...func(*sdk.Options)) (*sdk.ListResourcesOutput, error) {
	e.calls++
	page := make([]types.ResourceDescription, e.inPage)
	for i := range page {
		page[i] = types.ResourceDescription{Identifier: aws.String(fmt.Sprintf("vpc-%d-%d", e.calls, i)), Properties: &e.properties}
	}
	return &sdk.ListResourcesOutput{NextToken: aws.String("next"), ResourceDescriptions: page}, nil
}

func (e *endless) GetResource(ctx context.Context, in *sdk.GetResourceInput, _ ...func(*sdk.Options)) (*sdk.GetResourceOutput, error) {
	e.calls++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(e.latency):
	}
	return &sdk.GetResourceOutput{ResourceDescription: &types.ResourceDescription{Identifier: in.Identifier, Properties: &e.resource}}, nil
}

func TestASearchIsBounded(t *testing.T) {
	const marked = `{"Tags":[{"Key":"espalier.dev/owner","Value":"o"},{"Key":"espalier.dev/binding","Value":"m"}]`
	cases := map[string]struct {
		cloud endless
		want  string
	}{
		"by pages": {endless{inPage: 1, properties: `{"Tags":[]}`}, "the list has more than 200 pages"},
		"by the bytes of the list": {endless{inPage: 10, properties: `{"Tags":[],"CidrBlock":"` + strings.Repeat("1", 1<<20) + `"}`},
			"the list has more than 67108864 bytes"},
		"by reads":             {endless{inPage: 100, properties: `{}`, resource: `{"Tags":[]}`}, "more than 5000 resources would have to be read"},
		"by time":              {endless{inPage: 20, properties: `{}`, resource: `{"Tags":[]}`, latency: time.Second}, "it takes longer than 1m40s"},
		"by what is found":     {endless{inPage: 100, properties: marked + `}`}, "more than 5000 resources"},
		"by bytes of all that": {endless{inPage: 1, properties: marked + `,"CidrBlock":"` + strings.Repeat("1", 1<<20) + `"}`}, "8388608 bytes of their properties"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{})
				w.account.API = &tc.cloud
				began := time.Now()
				_, err := w.connect().Find(t.Context(), w.object, external.Key{}, external.Mark{ID: "m", Owner: "o"})
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "crossplane.io/external-name") {
					t.Errorf("after %d calls: %v", tc.cloud.calls, err)
				}
				if time.Since(began) > 100*time.Second {
					t.Errorf("it takes %s", time.Since(began))
				}
			})
		})
	}
}

// tagged is a Resource Groups Tagging API that knows some resources.
type tagged struct {
	pages   [][]string
	err     error
	calls   int
	filters []taggingtypes.TagFilter
}

func (f *tagged) GetResources(_ context.Context, in *tagging.GetResourcesInput, _ ...func(*tagging.Options)) (*tagging.GetResourcesOutput, error) {
	f.filters = in.TagFilters
	if f.calls++; f.err != nil || len(f.pages) < f.calls {
		return &tagging.GetResourcesOutput{}, f.err
	}
	out := &tagging.GetResourcesOutput{}
	for _, arn := range f.pages[f.calls-1] {
		out.ResourceTagMappingList = append(out.ResourceTagMappingList, taggingtypes.ResourceTagMapping{ResourceARN: &arn})
	}
	if f.calls < len(f.pages) {
		out.PaginationToken = aws.String("more")
	}
	return out, nil
}

// newLost returns a cloud with a resource among others, whose tags are not in lists.
func newLost(t *testing.T, others int) (w *world, lost string) {
	t.Helper()
	w = newWorld(t, "AWS::EC2::FlowLog", map[string]any{"ResourceId": "vpc-1", "ResourceType": "VPC"}, hook.Hooks{})
	w.cloud.ListOmitsTags = true
	for range others {
		document := `{"ResourceId":"vpc-1","ResourceType":"VPC","Tags":[]}`
		if _, err := w.cloud.CreateResource(t.Context(), &sdk.CreateResourceInput{TypeName: &w.kind.Type.Name, DesiredState: &document}); err != nil {
			t.Fatal(err)
		}
	}
	return w, string(w.create())
}

// find searches for the lost resource, and returns how many calls of AWS that takes.
func (w *world) find(api *tagged, mark external.Mark, lost string) int {
	w.Helper()
	w.account.Tagging = api
	count := func() int { return w.cloud.Calls("ListResources") + w.cloud.Calls("GetResource") + api.calls }
	before := count()
	found, err := w.connect().Find(w.Context(), w.object, external.Key{}, mark)
	if err != nil || len(found) != 1 || string(found[0].Ref) != lost {
		w.Errorf("found %v, %v", found, err)
	}
	return count() - before
}

func arn(id string) string { return "arn:aws:ec2:eu-west-1:123456789012:vpc-flow-log/" + id }

// TestALostResourceAmongManyIsFoundByItsTags has 2,000 other resources.
func TestALostResourceAmongManyIsFoundByItsTags(t *testing.T) {
	w, lost := newLost(t, 2000)
	owner := external.Mark{Owner: "o"}
	cases := map[string]struct {
		pages [][]string
		mark  external.Mark
		most  int
	}{
		"by its owner":                        {[][]string{{arn(lost)}}, owner, 3},
		"by its binding":                      {[][]string{{arn(lost)}}, external.Mark{ID: "m", Owner: "o"}, 3},
		"in a later page":                     {[][]string{{}, {arn(lost)}}, owner, 4},
		"among resources that are not marked": {[][]string{{arn("gone"), "no ARN", arn(lost)}}, owner, 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := &tagged{pages: tc.pages}
			if calls := w.find(api, tc.mark, lost); calls > tc.most {
				t.Errorf("the search takes %d calls", calls)
			}
			want := taggingtypes.TagFilter{Key: aws.String("espalier.dev/owner"), Values: []string{"o"}}
			if tc.mark.ID != "" {
				want = taggingtypes.TagFilter{Key: aws.String("espalier.dev/binding"), Values: []string{"m"}}
			}
			if len(api.filters) != 1 || *api.filters[0].Key != *want.Key || !slices.Equal(api.filters[0].Values, want.Values) {
				t.Errorf("the filters are %v", api.filters)
			}
		})
	}
}

// TestASearchByTagsProvesNoAbsence lists and reads all resources if the search by tags does not find one.
func TestASearchByTagsProvesNoAbsence(t *testing.T) {
	const others = 30
	w, lost := newLost(t, others)
	cases := map[string]struct {
		api    *tagged
		change func()
		asks   int
	}{
		"where AWS does not know the tags yet":                    {&tagged{}, func() {}, 1},
		"without the permission":                                  {&tagged{err: errors.New("AccessDenied")}, func() {}, 1},
		"where another resource is found":                         {&tagged{pages: [][]string{{arn("fl-0"), arn("gone")}}}, func() {}, 1},
		"where the resource is known, and others may have a mark": {&tagged{pages: [][]string{{arn(lost)}}}, func() { w.object.SetAnnotations(map[string]string{resource.ExternalNameAnnotation: lost}) }, 0},
		"at a deletion":                                           {&tagged{pages: [][]string{{arn(lost)}}}, func() { now := metav1.Now(); w.object.SetDeletionTimestamp(&now) }, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w.object = w.object.DeepCopy()
			w.object.SetAnnotations(nil)
			w.object.SetDeletionTimestamp(nil)
			tc.change()
			if calls := w.find(tc.api, external.Mark{ID: "m", Owner: "o"}, lost); calls < others || tc.api.calls != tc.asks {
				t.Errorf("the search takes %d calls, %d of them by tags", calls, tc.api.calls)
			}
		})
	}
}

// TestAFailedSearchNamesThePermissionOfTheOther has a search by tags fail, and then the list be too long.
func TestAFailedSearchNamesThePermissionOfTheOther(t *testing.T) {
	w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{})
	w.account.API, w.account.Tagging = &endless{inPage: 1, properties: `{"Tags":[]}`}, &tagged{err: errors.New("AccessDenied")}
	_, err := w.connect().Find(t.Context(), w.object, external.Key{}, external.Mark{Owner: "o"})
	if err == nil || !strings.Contains(err.Error(), "tag:GetResources, has failed: AccessDenied") {
		t.Error(err)
	}
}
