// go get go.mongodb.org/mongo-driver/v2 github.com/google/uuid
package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Take takes pieces from stock and says so, or does neither.
func Take(ctx context.Context, db *mongo.Database, sku string, pieces int) error {
	session, err := db.Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		var item struct {
			Remaining int64 `bson:"remaining"`
			Version   int64 `bson:"version"`
		}
		err := db.Collection("stock").FindOneAndUpdate(ctx,
			bson.M{"_id": sku},
			bson.M{"$inc": bson.M{"remaining": -pieces, "version": 1}},
			options.FindOneAndUpdate().SetReturnDocument(options.After),
		).Decode(&item)
		if err != nil {
			return nil, err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		_, err = db.Collection("outbox").InsertOne(ctx, bson.M{
			"_id":      bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}, // the event's id
			"topic":    "shop.stock",
			"key":      sku,          // rows of one key are published in their order:
			"ord":      item.Version, // this one, which no other change of the item has
			"payload":  bson.M{"sku": sku, "remaining": item.Remaining},
			"status":   "pending",
			"ts":       time.Now(),
			"attempts": 0,
		})
		if err == nil && item.Remaining < 0 {
			err = fmt.Errorf("not enough %s", sku) // the row goes with the change
		}
		return nil, err
	})
	return err
}
