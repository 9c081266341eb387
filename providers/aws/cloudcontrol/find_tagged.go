package cloudcontrol

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	tagging "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Tagging is the part of the Resource Groups Tagging API that a search calls. *resourcegroupstaggingapi.Client
// implements it.
type Tagging interface {
	GetResources(context.Context, *tagging.GetResourcesInput, ...func(*tagging.Options)) (*tagging.GetResourcesOutput, error)
}

const (
	// maxTagged bounds the resources that are read because the Resource Groups Tagging API names them.
	maxTagged = 10
	// maxTaggedPages bounds its pages: some may be empty.
	maxTaggedPages = 3
	// taggedTimeout bounds a request: a private network might not reach the API.
	taggedTimeout = 10 * time.Second
)

// Resources with the mark may be searched by their tags first. If one is known, a search for more with its mark
// follows, which tags could miss.
func (s *search) canFindTagged() bool {
	isKnown := s.last != nil || s.object.GetAnnotations()[resource.ExternalNameAnnotation] != "" || s.object.GetDeletionTimestamp() != nil
	return s.account.Tagging != nil && len(s.Type.PrimaryIdentifier) == 1 && !isKnown
}

// It reads what it finds. isFound is false if there is nothing, which proves nothing: the Resource Groups Tagging API
// lacks some types, and shows changes late. If it cannot be asked, the search goes on without it, and an error of the
// search has the reason.
func (s *search) findTagged(ctx context.Context) (isFound bool, err error) {
	filter := types.TagFilter{Key: aws.String(model.TagBinding), Values: []string{s.mark.ID}}
	if s.mark.ID == "" {
		filter = types.TagFilter{Key: aws.String(model.TagOwner), Values: []string{s.mark.Owner}}
	}
	input := &tagging.GetResourcesInput{TagFilters: []types.TagFilter{filter}}
	for range maxTaggedPages {
		if err := s.account.Limiter.Wait(ctx, reads); err != nil {
			return false, err
		}
		page, err := s.taggedPage(ctx, input)
		if err != nil {
			s.tagsErr = s.redacted(err.Error())
			return false, nil
		}
		s.confirm(ctx, page.ResourceTagMappingList)
		if input.PaginationToken = page.PaginationToken; len(s.found) > 0 || aws.ToString(page.PaginationToken) == "" {
			break
		}
	}
	return len(s.found) > 0, nil
}

func (s *search) taggedPage(ctx context.Context, input *tagging.GetResourcesInput) (*tagging.GetResourcesOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, taggedTimeout)
	defer cancel()
	page, err := s.account.Tagging.GetResources(ctx, input)
	s.account.Limiter.Report(err)
	return page, err
}

// Resources with the mark are added.
func (s *search) confirm(ctx context.Context, mappings []types.ResourceTagMapping) {
	for _, r := range mappings[:min(len(mappings), maxTagged)] {
		for _, id := range identifiersOf(aws.ToString(r.ResourceARN)) {
			properties, found, err := s.readOne(ctx, id)
			if err == nil && found && s.carries(properties, s.mark) {
				o, _ := s.observation(external.Ref(id), properties)
				s.found = append(s.found, o)
				break
			}
		}
	}
}

// An identifier may be the end of the ARN, or all of it. Only a read shows which one it is.
func identifiersOf(arn string) []string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		if end := parts[5][strings.LastIndexAny(parts[5], "/:")+1:]; end != "" {
			return []string{end, arn}
		}
	}
	return nil
}
