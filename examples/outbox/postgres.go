// go get github.com/jackc/pgx/v5 github.com/google/uuid
package shop

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Take takes pieces from stock and says so, or does neither.
func Take(ctx context.Context, pool *pgxpool.Pool, sku string, pieces int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var remaining, version int64
		err := tx.QueryRow(ctx,
			"UPDATE stock SET remaining = remaining - $2, version = version + 1 WHERE sku = $1 RETURNING remaining, version",
			sku, pieces,
		).Scan(&remaining, &version)
		if err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			"INSERT INTO outbox (id, topic, key, ord, payload) VALUES ($1, $2, $3, $4, $5)",
			id, "shop.stock", sku, version, map[string]any{"sku": sku, "remaining": remaining},
		)
		if err == nil && remaining < 0 {
			err = fmt.Errorf("not enough %s", sku) // the row goes with the change
		}
		return err
	})
}
