package cloudcontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Bounds of a search.
const (
	// maxPages and maxListed bound the list, by its pages and by the bytes of the properties in it.
	maxPages  = 200
	maxListed = 64 << 20
	// maxReads bounds the resources that are read because a list leaves their tags out.
	maxReads = 5000
	// maxFound and maxFoundBytes bound the resources with the mark, which are kept.
	maxFound      = 5000
	maxFoundBytes = 8 << 20
	// searchTimeout bounds the time. It is less than the timeout of a call, so the error says what to do.
	searchTimeout = 100 * time.Second
)

type search struct {
	*client
	mark  external.Mark
	found []external.Observation
	// listed and read count what was searched; the bytes are of properties.
	listed, read, listedBytes, foundBytes int
	// tagsErr is why the search by tags was not possible.
	tagsErr string
}

// Find lists the resources with a mark.
func (c *client) Find(ctx context.Context, _ *unstructured.Unstructured, _ external.Key, mark external.Mark) ([]external.Observation, error) {
	s := &search{client: c, mark: mark}
	tooSlow := errors.New("the search takes too long")
	ctx, cancel := context.WithTimeoutCause(ctx, searchTimeout, tooSlow)
	defer cancel()
	err := s.run(ctx)
	switch {
	case err == nil:
		return s.found, nil
	case errors.Is(context.Cause(ctx), tooSlow):
		return nil, s.limited("it takes longer than " + searchTimeout.String())
	}
	return nil, err
}

// The search has reached a bound. Nothing is created then, because its resource may exist.
func (s *search) limited(why string) error {
	if s.tagsErr != "" {
		why += ". The search by its tags, which needs the permission tag:GetResources, has failed: " + s.tagsErr
	}
	return fmt.Errorf("the search for the resource of this object has ended without a result: %s. Of type %s, %d resources were listed, and %d of them were read, because the list does not have their tags. If its resource exists, set the annotation %s to its identifier",
		why, s.Type.Name, s.listed, s.read, resource.ExternalNameAnnotation)
}

func (s *search) run(ctx context.Context) error {
	input, err := s.listInput()
	if err != nil {
		return err
	}
	for i := range maxPages {
		page, err := s.list(ctx, input)
		if err != nil {
			return s.readError("list", err)
		}
		if isLong := aws.ToString(page.NextToken) != "" || len(page.ResourceDescriptions) > maxTagged; i == 0 && isLong && s.canFindTagged() {
			if isFound, err := s.findTagged(ctx); isFound || err != nil {
				return err
			}
		}
		if err := s.searchPage(ctx, page.ResourceDescriptions); err != nil {
			return err
		}
		if input.NextToken = page.NextToken; aws.ToString(page.NextToken) == "" {
			return nil
		}
	}
	return s.limited(fmt.Sprintf("the list has more than %d pages", maxPages))
}

func (c *client) listInput() (*cloudcontrol.ListResourcesInput, error) {
	input := &cloudcontrol.ListResourcesInput{TypeName: &c.Type.Name, RoleArn: optional(c.account.RoleARN)}
	given, err := model.ListModel(c.Type, c.creation)
	if err != nil || given == nil {
		return input, err
	}
	raw, err := encode(given)
	input.ResourceModel = &raw
	return input, err
}

// Resources that a page lists without tags are read.
func (s *search) searchPage(ctx context.Context, page []types.ResourceDescription) error {
	var unknown []string
	for _, d := range page {
		s.listed++
		id, raw := aws.ToString(d.Identifier), aws.ToString(d.Properties)
		if s.listedBytes += len(raw); s.listedBytes > maxListed {
			return s.limited(fmt.Sprintf("the list has more than %d bytes", maxListed))
		}
		properties, _ := model.Decode([]byte(raw)) // without valid ones, it is read
		if _, hasTags := properties[s.tags.Property]; !hasTags {
			unknown = append(unknown, id)
		} else if err := s.add(id, properties); err != nil {
			return err
		}
	}
	if s.read+len(unknown) > maxReads {
		return s.limited(fmt.Sprintf("more than %d resources would have to be read", maxReads))
	}
	for some := range slices.Chunk(unknown, maxBatch) {
		found, err := s.readAll(ctx, some)
		if err != nil {
			return s.readError("read", err)
		}
		for _, id := range some {
			if err := s.add(id, found[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// The resource is added if it carries the mark.
func (s *search) add(id string, properties map[string]any) error {
	if !s.carries(properties, s.mark) {
		return nil
	}
	raw, err := encode(properties)
	if err != nil {
		return err
	}
	if s.foundBytes += len(raw); len(s.found) == maxFound || s.foundBytes > maxFoundBytes {
		return s.limited(fmt.Sprintf("more than %d resources, or %d bytes of their properties, carry the mark", maxFound, maxFoundBytes))
	}
	o, _ := s.observation(external.Ref(id), properties)
	s.found = append(s.found, o)
	return nil
}

// Many are read at once if the type has a hook for that. Missing ones are left out.
func (s *search) readAll(ctx context.Context, identifiers []string) (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	if s.hooks.ReadMany != nil {
		found, err := s.readMany(ctx, identifiers)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, found)
		s.read += len(found)
	}
	for _, id := range identifiers {
		if out[id] != nil {
			continue
		}
		properties, found, err := s.readOne(ctx, id)
		if err != nil {
			return nil, err
		}
		if s.read++; found {
			out[id] = properties
		}
	}
	return out, nil
}

func (c *client) list(ctx context.Context, input *cloudcontrol.ListResourcesInput) (*cloudcontrol.ListResourcesOutput, error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return nil, err
	}
	page, err := c.account.API.ListResources(ctx, input)
	c.account.Limiter.Report(err)
	return page, err
}

// The mark has the ID, or, if that is empty, the owner.
func (c *client) carries(properties map[string]any, mark external.Mark) bool {
	has := c.mark(properties)
	if has == nil {
		return false
	}
	if mark.ID == "" {
		return has.Owner == mark.Owner
	}
	return has.ID == mark.ID
}
