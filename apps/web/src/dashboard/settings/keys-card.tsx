/** Keys card: the API keys, a form that creates one, and a button that revokes one. */
import { formatNumber } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { When } from "../parts/times.tsx";
import { visibleText } from "../parts/visible-text.ts";
import { client, type KeyView } from "../service/client.ts";
import { NewKey } from "./new-key.tsx";

interface KeysCardProps {
  readonly isRequired: boolean;
  readonly isChangeable: boolean;
  readonly keys: readonly KeyView[];
  onChanged(): void;
}

export function KeysCard({ isRequired, isChangeable, keys, onChanged }: KeysCardProps) {
  if (!isRequired) {
    return (
      <EmptyState title="The service requires no API key" command="redrive keys add --name ops">
        Everybody who reaches its address may use it, so it listens on this machine only. Create a
        key and restart the service to require one.
      </EmptyState>
    );
  }
  return (
    <Card title="API keys" aside="a key itself is shown once, when it is created">
      <div class="table-wrap">
        <table class="table rows">
          <caption class="visually-hidden">API keys</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Id</th>
              <th scope="col">Tenant</th>
              <th scope="col">Scopes</th>
              <th scope="col">Limits</th>
              <th scope="col" class="number">
                Created
              </th>
              <th scope="col" class="number">
                Expires
              </th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <KeyRow key={key.keyId} record={key} onRevoked={onChanged} />
            ))}
          </tbody>
        </table>
      </div>
      {isChangeable ? (
        <NewKey onCreated={onChanged} />
      ) : (
        <p class="faint">
          The key of this service is set by REDRIVE_API_KEY. Only a SQLite store has a file for more
          keys.
        </p>
      )}
    </Card>
  );
}

interface KeyRowProps {
  readonly record: KeyView;
  onRevoked(): void;
}

function KeyRow({ record, onRevoked }: KeyRowProps) {
  const { keyId, name, tenantId, scopes, createdAt, expiresAt, isOwn, isRevocable } = record;
  const own = isOwn ? " You are signed in with it." : "";
  return (
    <tr>
      <th scope="row" data-label="Name" class="name">
        <span>
          <bdi>{visibleText(name) || "–"}</bdi> {isOwn && <span class="status accent">yours</span>}
        </span>
      </th>
      <td data-label="Id">
        <span class="id">{keyId}</span>
      </td>
      <td data-label="Tenant">{tenantId}</td>
      <td data-label="Scopes" class="wrap">
        {scopes.join(", ")}
      </td>
      <td data-label="Limits" class="wrap">
        {limitsText(record)}
      </td>
      <td data-label="Created" class="number">
        <When at={createdAt} />
      </td>
      <td data-label="Expires" class="number">
        {expiresAt === null ? <span class="faint">never</span> : <When at={expiresAt} />}
      </td>
      <td data-label="Actions" class="row-actions">
        {isRevocable ? (
          <ActionButton
            label="Revoke"
            isSmall
            question={`Revoke it? Programs that use it are refused at once.${own}`}
            act={() => client.revokeKey(keyId)}
            onDone={onRevoked}
          />
        ) : (
          <span class="faint">set at the start</span>
        )}
      </td>
    </tr>
  );
}

function limitsText({ limits }: KeyView): string {
  const { requestsPerSecond, requestsAtOnce, maxWaiting, targets } = limits;
  const parts = [
    requestsPerSecond !== undefined && `${formatNumber(requestsPerSecond)} per s`,
    requestsAtOnce !== undefined && `${formatNumber(requestsAtOnce)} at once`,
    maxWaiting !== undefined && `${formatNumber(maxWaiting)} waiting`,
    targets !== undefined && `to ${targets}`,
  ];
  return parts.filter(Boolean).join(", ") || "none";
}
