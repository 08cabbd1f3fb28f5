// A modal dialog: the browser's own, so that focus stays inside and Escape closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { oneLine } from "../lib/format.ts";
import { Button, InDialog, Announcements } from "./basics.tsx";

/** A link can put any text into a title. */
export function Dialog(props: { title: string; close?: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    element.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const title = oneLine(props.title);
  return (
    <dialog
      ref={element}
      class={props.wide === true ? "wide" : undefined}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        props.close?.();
      }}
      onClose={() => {
        // A browser closes a dialog at the second Escape whatever the page says. Whether it goes is for its owner to say.
        element.current?.showModal();
        props.close?.();
      }}
    >
      <header>
        <h2>{title}</h2>
        {props.close !== undefined && <Button kind="quiet" icon="close" label="Close" onClick={props.close} />}
      </header>
      <InDialog.Provider value={true}>{props.children}</InDialog.Provider>
      <Announcements />
    </dialog>
  );
}
