// Package existing reads resources of AWS that exist, through the Cloud Control API or the handler of their type: some of one
// type, and what they refer to. It only reads. Package manifest makes managed resources of the result.
package existing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"github.com/aws/smithy-go"

	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// API is the part of the Cloud Control API that is called. *cloudcontrol.Client implements it.
type API interface {
	GetResource(context.Context, *cloudcontrol.GetResourceInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.GetResourceOutput, error)
	ListResources(context.Context, *cloudcontrol.ListResourcesInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.ListResourcesOutput, error)
}

// Reader reads resources.
type Reader struct {
	API API
	// Types returns the schema of a type.
	Types func(name string) (*resourcetype.Type, error)
	// Config is for the calls of types that Cloud Control does not serve, by the handlers of package hook.
	Config aws.Config
	// Limit is the greatest number of resources in a result.
	Limit int
}

// Selection selects resources of a type: by identifiers; without any, by all the tags. A resource that is identified
// must have the tags.
type Selection struct {
	Type        string
	Identifiers []string
	Tags        map[string]string
	// ListWith is a JSON object with what a list of resources of the type needs.
	ListWith string
}

// Read returns the selected resources: in the order of the identifiers, or sorted by identifier.
func (r Reader) Read(ctx context.Context, s Selection) ([]manifest.Resource, error) {
	t, err := r.Types(s.Type)
	if err != nil {
		return nil, err
	}
	if len(s.Tags) > 0 && model.TagsOf(t).Property == "" {
		return nil, fmt.Errorf("resources of %s have no tags to select by; name identifiers%s", t.Name, formOf(t))
	}
	identifiers, isListed := s.Identifiers, len(s.Identifiers) == 0
	if isListed {
		if identifiers, err = r.list(ctx, t, s.ListWith); err != nil {
			return nil, err
		}
	}
	var out []manifest.Resource
	for _, identifier := range identifiers {
		// A list may leave properties out, so each resource is read.
		found, err := r.get(ctx, t, identifier)
		switch {
		case isListed && isNotFound(err):
			continue // deleted after it was listed
		case isNotFound(err):
			return nil, fmt.Errorf("there is no %s %s in this account and region%s", s.Type, identifier, formOf(t))
		case err != nil:
			return nil, err
		}
		switch {
		case manifest.HasTags(found, s.Tags):
		case isListed:
			continue
		default:
			return nil, fmt.Errorf("%s %s does not have the tags %s", s.Type, identifier, tagText(s.Tags))
		}
		if out = append(out, found); len(out) > r.Limit {
			return nil, tooMany(r.Limit)
		}
	}
	return out, nil
}

// It ends a message; it is empty if an identifier is one part.
func formOf(t *resourcetype.Type) string {
	if len(t.PrimaryIdentifier) == 1 {
		return ""
	}
	var parts []string
	for _, part := range t.PrimaryIdentifier {
		parts = append(parts, part.String())
	}
	return "; an identifier is " + strings.Join(parts, "|")
}

// They are as in --tag, and sorted.
func tagText(tags map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, key+"="+tags[key])
	}
	return strings.Join(out, ", ")
}

func tooMany(limit int) error {
	return fmt.Errorf("there are more than %d resources; select fewer, or raise --limit", limit)
}

// Follow adds what the resources refer to, and what these refer to, and says what could not be read.
func (r Reader) Follow(ctx context.Context, resources []manifest.Resource) (out []manifest.Resource, notes []string, err error) {
	out = slices.Clone(resources)
	known := map[string]bool{}
	for i := 0; i < len(out); i++ {
		for _, target := range manifest.Targets(out[i]) {
			if known[target.String()] || slices.ContainsFunc(out, target.Is) {
				continue
			}
			known[target.String()] = true
			found, note, err := r.find(ctx, target)
			switch {
			case err != nil:
				return nil, nil, err
			case note != "":
				notes = append(notes, fmt.Sprintf("%s refers to %s, which is left out: %s", out[i], target, note))
				continue
			}
			if out = append(out, found); len(out) > r.Limit {
				return nil, nil, tooMany(r.Limit)
			}
		}
	}
	return out, notes, nil
}

// The note says why the target cannot be read. An error is one that other reads would have as well.
func (r Reader) find(ctx context.Context, target manifest.Target) (found manifest.Resource, note string, err error) {
	t, err := r.Types(target.Type)
	if err != nil {
		return found, err.Error(), nil
	}
	if note := manifest.Unreadable(target, t); note != "" {
		return found, note, nil
	}
	note = "it does not exist in this account and region"
	for _, identifier := range target.Identifiers() {
		found, err = r.get(ctx, t, identifier)
		var response smithy.APIError
		switch {
		case err == nil && target.Is(found):
			return found, "", nil
		case err == nil, isNotFound(err):
		case ctx.Err() != nil, !errors.As(err, &response):
			return found, "", err
		default: // of an identifier that AWS does not accept, or without a permission
			note = err.Error()
		}
	}
	return found, note, nil
}

func (r Reader) get(ctx context.Context, t *resourcetype.Type, identifier string) (manifest.Resource, error) {
	if handler := hook.For(t.Name).Handler; handler != nil {
		found, err := handler.Read(ctx, r.Config, identifier)
		if err == nil && found == nil {
			err = &types.ResourceNotFoundException{}
		}
		if err != nil {
			return manifest.Resource{}, fmt.Errorf("read %s %s: %w", t.Name, identifier, err)
		}
		return manifest.Resource{Type: t, Identifier: identifier, Properties: found.Properties}, nil
	}
	answer, err := r.API.GetResource(ctx, &cloudcontrol.GetResourceInput{TypeName: aws.String(t.Name), Identifier: aws.String(identifier)})
	if err != nil {
		return manifest.Resource{}, fmt.Errorf("read %s %s: %w", t.Name, identifier, err)
	}
	if answer.ResourceDescription == nil {
		return manifest.Resource{}, fmt.Errorf("read %s %s: the answer has no resource", t.Name, identifier)
	}
	properties, err := model.Decode([]byte(aws.ToString(answer.ResourceDescription.Properties)))
	if err != nil {
		return manifest.Resource{}, fmt.Errorf("read %s %s: %w", t.Name, identifier, err)
	}
	if own := aws.ToString(answer.ResourceDescription.Identifier); own != "" {
		identifier = own // AWS accepts other identifiers of some types, such as an ARN
	}
	return manifest.Resource{Type: t, Identifier: identifier, Properties: properties}, nil
}

// maxListed bounds what is listed and read in order to find the resources with a tag.
const maxListed = 5000

// The identifiers are sorted.
func (r Reader) list(ctx context.Context, t *resourcetype.Type, with string) ([]string, error) {
	if h := hook.For(t.Name).Handler; h != nil {
		return r.listHandled(ctx, t, h, with)
	}
	handler, has := t.Handlers[resourcetype.List]
	if !has {
		return nil, fmt.Errorf("AWS cannot list resources of %s; name their identifiers%s", t.Name, formOf(t))
	}
	if handler.HandlerSchema != nil && len(handler.HandlerSchema.Required) > 0 && with == "" {
		return nil, fmt.Errorf("AWS lists resources of %s only with %s: set --list-with '%s', or name identifiers%s",
			t.Name, strings.Join(handler.HandlerSchema.Required, ", "), listForm(handler.HandlerSchema.Required), formOf(t))
	}
	input := &cloudcontrol.ListResourcesInput{TypeName: aws.String(t.Name)}
	if _, err := decodeWith(with); err != nil {
		return nil, err
	}
	if with != "" {
		input.ResourceModel = aws.String(with)
	}
	var out []string
	for {
		answer, err := r.API.ListResources(ctx, input)
		if err != nil {
			return nil, fmt.Errorf("list resources of %s: %w", t.Name, err)
		}
		for _, each := range answer.ResourceDescriptions {
			out = append(out, aws.ToString(each.Identifier))
		}
		if len(out) > maxListed {
			return nil, fmt.Errorf("there are more than %d resources of %s; name identifiers", maxListed, t.Name)
		}
		if input.NextToken = answer.NextToken; aws.ToString(input.NextToken) == "" {
			slices.Sort(out)
			return slices.Compact(out), nil
		}
	}
}

// The identifiers are sorted.
func (r Reader) listHandled(ctx context.Context, t *resourcetype.Type, h hook.Handler, with string) ([]string, error) {
	properties, err := decodeWith(with)
	if err != nil {
		return nil, err
	}
	out, err := h.List(ctx, r.Config, properties)
	switch {
	case err != nil:
		return nil, fmt.Errorf("list resources of %s: %w", t.Name, err)
	case len(out) > maxListed:
		return nil, fmt.Errorf("there are more than %d resources of %s; name identifiers", maxListed, t.Name)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// It is nothing if with is empty.
func decodeWith(with string) (map[string]any, error) {
	if with == "" {
		return map[string]any{}, nil
	}
	out, err := model.Decode([]byte(with))
	if err != nil {
		return nil, fmt.Errorf("--list-with takes a JSON object, such as %s: %w", listForm([]string{"ClusterName"}), err)
	}
	return out, nil
}

// It is the JSON object for a list of resources, with values to be filled in.
func listForm(names []string) string {
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("%q: \"…\"", name))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// AWS also answers a general error with the code of the handler in its text.
func isNotFound(err error) bool {
	var missing *types.ResourceNotFoundException
	var general *types.GeneralServiceException
	return errors.As(err, &missing) || errors.As(err, &general) && strings.Contains(general.ErrorMessage(), "HandlerErrorCode: NotFound")
}
