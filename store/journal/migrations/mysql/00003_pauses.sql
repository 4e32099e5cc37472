-- +goose NO TRANSACTION
-- +goose Up

-- The last change of every pattern of topics that was ever paused: what the
-- operators hold back outlives the store that the messages wait in.
CREATE TABLE IF NOT EXISTS pauses (
  pattern VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  at      BIGINT           NOT NULL, -- unix milliseconds; no two changes share one
  paused  TINYINT UNSIGNED NOT NULL, -- 0: it was resumed
  who     VARCHAR(255)     NOT NULL  -- who paused it
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
