/** Sign-in: exchanges an API key for a cookie. The key itself is not stored in the browser. */
import { useSignal } from "@preact/signals";
import { Card } from "../../components/card.tsx";
import { Problem } from "../../components/problem.tsx";
import { signIn } from "../service/session.ts";

export function SignIn() {
  const key = useSignal("");
  const problem = useSignal("");
  const isBusy = useSignal(false);
  const submit = async () => {
    isBusy.value = true;
    problem.value = await signIn(key.value.trim());
    isBusy.value = false;
  };
  return (
    <div class="page stage sign-in">
      <h1>Sign in</h1>
      <Card>
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <div class="select">
            <label for="api-key">API key</label>
            <input
              id="api-key"
              class="text-area"
              type="password"
              autocomplete="off"
              required
              placeholder="rdv_…"
              value={key.value}
              onInput={(event) => {
                key.value = event.currentTarget.value;
              }}
            />
          </div>
          <Problem message={problem.value} />
          <button type="submit" class="button accent" disabled={isBusy.value}>
            Sign in
          </button>
        </form>
        <p class="faint">
          This service requires an API key. The page exchanges it for a cookie that lasts 12 hours
          and has the rights of the key. To create a key, run{" "}
          <code>redrive keys add --name ops</code>.
        </p>
      </Card>
    </div>
  );
}
