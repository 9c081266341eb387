package hook

import (
	"context"
	"errors"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/docdb"
	"github.com/aws/aws-sdk-go-v2/service/docdb/types"
)

// It handles AWS::DocDB::DBInstance as docDBClusters handles clusters.
type docDBInstances struct{}

type docDBInstance struct {
	AutoMinorVersionUpgrade     *bool
	AvailabilityZone            *string
	CACertificateIdentifier     *string
	CertificateRotationRestart  *bool
	CopyTagsToSnapshot          *bool
	DBClusterIdentifier         *string
	DBInstanceClass             *string
	DBInstanceIdentifier        *string
	EnablePerformanceInsights   *bool
	PerformanceInsightsKMSKeyId *string
	PreferredMaintenanceWindow  *string
	PromotionTier               *int32
	Tags                        []docDBTag
}

// Identifier returns the name of the instance.
func (docDBInstances) Identifier(desired map[string]any) string {
	return text(desired, "DBInstanceIdentifier")
}

func (docDBInstances) List(ctx context.Context, config aws.Config, _ map[string]any) ([]string, error) {
	var out []string
	pages := docdb.NewDescribeDBInstancesPaginator(docdb.NewFromConfig(config), &docdb.DescribeDBInstancesInput{
		Filters: []types.Filter{{Name: aws.String("engine"), Values: []string{docDBEngine}}},
	})
	for range docDBPages {
		if !pages.HasMorePages() {
			return out, nil
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range page.DBInstances {
			out = append(out, aws.ToString(i.DBInstanceIdentifier))
		}
	}
	return nil, errors.New("there are more instances than are listed")
}

func (docDBInstances) Create(ctx context.Context, config aws.Config, desired map[string]any, _ []string) (Created, error) {
	i, err := decodeProperties[docDBInstance](desired)
	if err != nil {
		return Created{}, err
	}
	_, err = docdb.NewFromConfig(config).CreateDBInstance(ctx, &docdb.CreateDBInstanceInput{
		Engine: aws.String(docDBEngine), AutoMinorVersionUpgrade: i.AutoMinorVersionUpgrade, AvailabilityZone: i.AvailabilityZone,
		CACertificateIdentifier: i.CACertificateIdentifier, CopyTagsToSnapshot: i.CopyTagsToSnapshot, DBClusterIdentifier: i.DBClusterIdentifier,
		DBInstanceClass: i.DBInstanceClass, DBInstanceIdentifier: i.DBInstanceIdentifier, EnablePerformanceInsights: i.EnablePerformanceInsights,
		PerformanceInsightsKMSKeyId: i.PerformanceInsightsKMSKeyId, PreferredMaintenanceWindow: i.PreferredMaintenanceWindow,
		PromotionTier: i.PromotionTier, Tags: docDBTags(i.Tags),
	})
	if err != nil {
		return Created{}, err
	}
	return Created{Resource: Resource{Identifier: aws.ToString(i.DBInstanceIdentifier)}}, nil
}

// It is nil if there is none.
func (docDBInstances) find(ctx context.Context, client *docdb.Client, identifier string) (*types.DBInstance, error) {
	found, err := client.DescribeDBInstances(ctx, &docdb.DescribeDBInstancesInput{DBInstanceIdentifier: &identifier})
	if hasCode(err, "DBInstanceNotFound") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, i := range found.DBInstances {
		if aws.ToString(i.Engine) == docDBEngine {
			return withPending(i), nil
		}
	}
	return nil, nil
}

// The instance is as it will be: a change that was accepted is not requested again.
func withPending(i types.DBInstance) *types.DBInstance {
	if p := i.PendingModifiedValues; p != nil {
		if p.DBInstanceClass != nil {
			i.DBInstanceClass = p.DBInstanceClass
		}
		if p.CACertificateIdentifier != nil {
			i.CACertificateIdentifier = p.CACertificateIdentifier
		}
	}
	return &i
}

func (h docDBInstances) Read(ctx context.Context, config aws.Config, identifier string) (*Resource, error) {
	client := docdb.NewFromConfig(config)
	i, err := h.find(ctx, client, identifier)
	if err != nil || i == nil {
		return nil, err
	}
	properties := docDBInstanceProperties(*i)
	if properties["Tags"], err = readDocDBTags(ctx, client, i.DBInstanceArn); hasCode(err, "DBInstanceNotFound") {
		return nil, nil // it was deleted in between
	}
	return &Resource{Identifier: identifier, Properties: properties, Busy: isDocDBBusy(i.DBInstanceStatus)}, err
}

func docDBInstanceProperties(i types.DBInstance) map[string]any {
	o := object{}
	o.flag("AutoMinorVersionUpgrade", i.AutoMinorVersionUpgrade)
	o.text("AvailabilityZone", i.AvailabilityZone)
	o.text("CACertificateIdentifier", i.CACertificateIdentifier)
	o.flag("CopyTagsToSnapshot", i.CopyTagsToSnapshot)
	o.text("DBClusterIdentifier", i.DBClusterIdentifier)
	o.text("DBInstanceArn", i.DBInstanceArn)
	o.text("DBInstanceClass", i.DBInstanceClass)
	o.text("DBInstanceIdentifier", i.DBInstanceIdentifier)
	o.text("DBInstanceStatus", i.DBInstanceStatus)
	o.flag("EnablePerformanceInsights", i.PerformanceInsightsEnabled)
	o.text("EngineVersion", i.EngineVersion)
	o.text("PerformanceInsightsKMSKeyId", i.PerformanceInsightsKMSKeyId)
	o.text("PreferredMaintenanceWindow", i.PreferredMaintenanceWindow)
	o.number("PromotionTier", i.PromotionTier)
	if e := i.Endpoint; e != nil {
		o.text("Endpoint", e.Address)
		if e.Port != nil {
			o["Port"] = strconv.Itoa(int(*e.Port))
		}
	}
	return o
}

func (h docDBInstances) Update(ctx context.Context, config aws.Config, identifier string, desired map[string]any) error {
	wanted, err := decodeProperties[docDBInstance](desired)
	if err != nil {
		return err
	}
	client := docdb.NewFromConfig(config)
	present, err := h.find(ctx, client, identifier)
	switch {
	case err != nil:
		return err
	case present == nil:
		return errGone("the instance " + identifier)
	}
	if change := wanted.modify(*present); change != nil {
		if _, err := client.ModifyDBInstance(ctx, change); err != nil {
			return err
		}
	}
	if _, isSet := desired["Tags"]; !isSet {
		return nil
	}
	return writeDocDBTags(ctx, client, present.DBInstanceArn, wanted.Tags)
}

// It is nil for none.
func (i docDBInstance) modify(present types.DBInstance) *docdb.ModifyDBInstanceInput {
	m := docdb.ModifyDBInstanceInput{
		AutoMinorVersionUpgrade:    changed(i.AutoMinorVersionUpgrade, present.AutoMinorVersionUpgrade),
		CACertificateIdentifier:    changed(i.CACertificateIdentifier, present.CACertificateIdentifier),
		CopyTagsToSnapshot:         changed(i.CopyTagsToSnapshot, present.CopyTagsToSnapshot),
		DBInstanceClass:            changed(i.DBInstanceClass, present.DBInstanceClass),
		EnablePerformanceInsights:  changed(i.EnablePerformanceInsights, present.PerformanceInsightsEnabled),
		PreferredMaintenanceWindow: changedText(i.PreferredMaintenanceWindow, present.PreferredMaintenanceWindow),
		PromotionTier:              changed(i.PromotionTier, present.PromotionTier),
	}
	if isZero(m) {
		return nil
	}
	if m.EnablePerformanceInsights != nil {
		m.PerformanceInsightsKMSKeyId = i.PerformanceInsightsKMSKeyId
	}
	if m.CACertificateIdentifier != nil {
		m.CertificateRotationRestart = i.CertificateRotationRestart
	}
	m.DBInstanceIdentifier, m.ApplyImmediately = present.DBInstanceIdentifier, aws.Bool(true)
	return &m
}

func (docDBInstances) Delete(ctx context.Context, config aws.Config, identifier string) error {
	_, err := docdb.NewFromConfig(config).DeleteDBInstance(ctx, &docdb.DeleteDBInstanceInput{DBInstanceIdentifier: &identifier})
	if hasCode(err, "DBInstanceNotFound") {
		return nil
	}
	return err
}
